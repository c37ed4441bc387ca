-- Roles. A role reads and changes the sessions of the machines that it, or a role it belongs to, has registered.
-- The owner of these tables is not restricted, so a store that is used with one role works as before.
ALTER TABLE machine ADD COLUMN owner NAME NOT NULL DEFAULT CURRENT_USER;

-- Other roles that may use the store. Those that could read it before can still read everything.
CREATE TABLE member (
    role NAME PRIMARY KEY,
    reads_all BOOLEAN NOT NULL
);
INSERT INTO member (role, reads_all)
    SELECT DISTINCT grantee, TRUE FROM information_schema.role_table_grants
    WHERE table_schema = current_schema() AND table_name = 'session' AND privilege_type = 'SELECT'
        AND grantee <> CURRENT_USER;

CREATE FUNCTION acts_as(who NAME, wanted NAME) RETURNS BOOLEAN LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = wanted AND pg_has_role(who, oid, 'MEMBER'))
$$;

-- The following functions run with the privileges of the owner, because they read rows that a role may not see.

CREATE FUNCTION readable_machines(who NAME) RETURNS SETOF BIGINT
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT id FROM machine WHERE acts_as(who, owner)
        OR EXISTS (SELECT 1 FROM member WHERE reads_all AND acts_as(who, role))
$$;

CREATE FUNCTION may_change_machine(which BIGINT, who NAME) RETURNS BOOLEAN
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT EXISTS (SELECT 1 FROM machine WHERE id = which AND acts_as(who, owner))
$$;

-- The same functions for sessions and files, which belong to a machine, and for parts, which belong to a session.
DO $$
DECLARE
    kind TEXT;
    parent TEXT;
BEGIN
    FOR kind, parent IN VALUES ('session', 'machine'), ('file', 'machine'), ('part', 'session') LOOP
        EXECUTE format(
            'CREATE FUNCTION %I(who NAME) RETURNS SETOF BIGINT
            LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $body$
                SELECT id FROM %I WHERE %I IN (SELECT %I(who))
            $body$', 'readable_' || kind || 's', kind, parent, 'readable_' || parent || 's');
        EXECUTE format(
            'CREATE FUNCTION %I(which BIGINT, who NAME) RETURNS BOOLEAN
            LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $body$
                SELECT EXISTS (SELECT 1 FROM %I WHERE id = which AND %I(%I, who))
            $body$', 'may_change_' || kind, kind, 'may_change_' || parent, parent);
    END LOOP;
END $$;

DO $$
DECLARE
    names TEXT;
    col TEXT;
    kind TEXT;
    name TEXT;
BEGIN
    FOR names, col, kind IN VALUES
        ('session, file', 'machine', 'machine'),
        ('session_file, block, part, event, place, span, touch, act', 'session', 'session'),
        ('chunk', 'file', 'file'),
        ('words, piece', 'part', 'part')
    LOOP
        FOREACH name IN ARRAY string_to_array(names, ', ') LOOP
            EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
            EXECUTE format(
                'CREATE POLICY reading ON %I FOR SELECT USING (%I IN (SELECT %I(current_user)))',
                name, col, 'readable_' || kind || 's');
            EXECUTE format(
                'CREATE POLICY adding ON %I FOR INSERT WITH CHECK (%I(%I, current_user))',
                name, 'may_change_' || kind, col);
            EXECUTE format(
                'CREATE POLICY changing ON %I FOR UPDATE USING (%I(%I, current_user))',
                name, 'may_change_' || kind, col);
            EXECUTE format(
                'CREATE POLICY removing ON %I FOR DELETE USING (%I(%I, current_user))',
                name, 'may_change_' || kind, col);
        END LOOP;
    END LOOP;
END $$;

ALTER TABLE machine ENABLE ROW LEVEL SECURITY;
CREATE POLICY reading ON machine FOR SELECT USING (id IN (SELECT readable_machines(current_user)));
CREATE POLICY adding ON machine FOR INSERT WITH CHECK (owner = current_user);

ALTER TABLE journal ENABLE ROW LEVEL SECURITY;
CREATE POLICY reading ON journal FOR SELECT
    USING (session IS NULL OR session IN (SELECT readable_sessions(current_user)));
-- An entry may be about a session that is being removed.
CREATE POLICY adding ON journal FOR INSERT WITH CHECK (TRUE);

-- Lets a role use the store: its own sessions or, with `may_read_all`, also those of others.
CREATE FUNCTION add_member(new_role NAME, may_read_all BOOLEAN DEFAULT FALSE) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO member (role, reads_all) VALUES (new_role, may_read_all)
        ON CONFLICT (role) DO UPDATE SET reads_all = EXCLUDED.reads_all;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), new_role);
    EXECUTE format('GRANT SELECT ON store_version, member TO %I', new_role);
    EXECUTE format('GRANT SELECT, INSERT ON machine, name TO %I', new_role);
    -- Only the owner of the tables, whom no policy restricts, can shorten the change log.
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON journal TO %I', new_role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON session, file, session_file, block, part, event, place, '
        'span, touch, act, chunk, words, piece TO %I', new_role);
    EXECUTE format('GRANT USAGE, SELECT, UPDATE ON SEQUENCE part_id TO %I', new_role);
END $$;
REVOKE EXECUTE ON FUNCTION add_member(NAME, BOOLEAN) FROM PUBLIC;
