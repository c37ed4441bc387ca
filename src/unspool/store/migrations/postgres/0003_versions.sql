-- Versions of files. Whenever a file is rewritten, the old row stays with its bytes and names the row that replaced it.
ALTER TABLE file
    ADD COLUMN ctime BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN verified BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN archived_at DOUBLE PRECISION,
    ADD COLUMN origin TEXT NOT NULL DEFAULT 'created',
    ADD COLUMN replaced_by BIGINT REFERENCES file;
-- Earlier versions kept the old row only if a file had become shorter.
UPDATE file SET replaced_by = (
    SELECT min(later.id) FROM file AS later
    WHERE later.machine = file.machine AND later.path = file.path AND later.id > file.id
) WHERE replaced_at IS NOT NULL;
UPDATE file SET origin = 'truncated', archived_at = (
    SELECT max(earlier.replaced_at) FROM file AS earlier WHERE earlier.replaced_by = file.id
) WHERE id IN (SELECT replaced_by FROM file);
CREATE INDEX file_replaced_by ON file (replaced_by) WHERE replaced_by IS NOT NULL;

-- A chunk of an old version may be stored as the difference to the same chunk of the version that replaced it: to its
-- first `base_length` bytes, because it may have grown since.
ALTER TABLE chunk ADD COLUMN base BIGINT REFERENCES file, ADD COLUMN base_length BIGINT;
CREATE INDEX chunk_base ON chunk (base) WHERE base IS NOT NULL;

-- The times at which bytes were appended to a file, and its size before (`start`).
CREATE TABLE growth (
    file BIGINT NOT NULL REFERENCES file,
    start BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (file, start)
);

-- Files and folders that could not be read in the last run.
CREATE TABLE unreadable (
    machine BIGINT NOT NULL REFERENCES machine,
    path TEXT NOT NULL,
    reason TEXT NOT NULL,
    since DOUBLE PRECISION NOT NULL
);
CREATE UNIQUE INDEX unreadable_once ON unreadable (machine, md5(path));

-- Roles have the same access to the new tables as to the tables they refer to.
DO $$
DECLARE
    name TEXT;
    col TEXT;
    who NAME;
BEGIN
    FOR name, col IN VALUES ('growth', 'file'), ('unreadable', 'machine') LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY reading ON %I FOR SELECT USING (%I IN (SELECT %I(current_user)))',
            name, col, 'readable_' || col || 's');
        EXECUTE format(
            'CREATE POLICY adding ON %I FOR INSERT WITH CHECK (%I(%I, current_user))',
            name, 'may_change_' || col, col);
        EXECUTE format(
            'CREATE POLICY changing ON %I FOR UPDATE USING (%I(%I, current_user))',
            name, 'may_change_' || col, col);
        EXECUTE format(
            'CREATE POLICY removing ON %I FOR DELETE USING (%I(%I, current_user))',
            name, 'may_change_' || col, col);
    END LOOP;
    FOR who IN SELECT role FROM member LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON growth, unreadable TO %I', who);
    END LOOP;
END $$;

ALTER FUNCTION add_member(NAME, BOOLEAN) RENAME TO add_member_to_first_tables;
CREATE FUNCTION add_member(new_role NAME, may_read_all BOOLEAN DEFAULT FALSE) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM add_member_to_first_tables(new_role, may_read_all);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON growth, unreadable TO %I', new_role);
END $$;
REVOKE EXECUTE ON FUNCTION add_member(NAME, BOOLEAN) FROM PUBLIC;
