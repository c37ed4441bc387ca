-- Sessions that were removed on purpose, and are not imported again. There is one row for each of their files, and one
-- with an empty path. This version also adds checksums to packed data, which earlier versions of unspool cannot read.
CREATE TABLE forgotten (
    machine BIGINT NOT NULL REFERENCES machine,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL
);
CREATE INDEX forgotten_session ON forgotten (machine, agent, md5(name));

-- Roles have the same access to it as to the sessions of the same machine.
ALTER TABLE forgotten ENABLE ROW LEVEL SECURITY;
CREATE POLICY reading ON forgotten FOR SELECT USING (machine IN (SELECT readable_machines(current_user)));
CREATE POLICY adding ON forgotten FOR INSERT WITH CHECK (may_change_machine(machine, current_user));
CREATE POLICY changing ON forgotten FOR UPDATE USING (may_change_machine(machine, current_user));
CREATE POLICY removing ON forgotten FOR DELETE USING (may_change_machine(machine, current_user));
DO $$
DECLARE
    who NAME;
BEGIN
    FOR who IN SELECT role FROM member LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON forgotten TO %I', who);
    END LOOP;
END $$;

ALTER FUNCTION add_member(NAME, BOOLEAN) RENAME TO add_member_to_versions;
CREATE FUNCTION add_member(new_role NAME, may_read_all BOOLEAN DEFAULT FALSE) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM add_member_to_versions(new_role, may_read_all);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON forgotten TO %I', new_role);
END $$;
REVOKE EXECUTE ON FUNCTION add_member(NAME, BOOLEAN) FROM PUBLIC;
