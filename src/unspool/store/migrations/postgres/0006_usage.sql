-- The part of `cache_write` that stays in the cache for an hour. It is unknown for existing rows.
ALTER TABLE act ADD COLUMN cache_write_1h BIGINT;

-- The rows of `act` added up by quarter of an hour, so that statistics need not read all of them. `size` is how many of
-- 100,000, 200,000 and 272,000 tokens the input of a request exceeds, because some prices depend on it. `count` is the
-- number of rows of `act`; those that name no model have 0 for it.
CREATE TABLE usage_slot (
    session BIGINT NOT NULL REFERENCES session,
    slot BIGINT NOT NULL,
    model BIGINT NOT NULL,
    size BIGINT NOT NULL,
    count BIGINT NOT NULL,
    prompts BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    replies BIGINT NOT NULL,
    input BIGINT NOT NULL,
    output BIGINT NOT NULL,
    cache_read BIGINT NOT NULL,
    cache_write BIGINT NOT NULL,
    reasoning BIGINT NOT NULL,
    cache_write_1h BIGINT NOT NULL,
    PRIMARY KEY (session, slot, model, size)
);
INSERT INTO usage_slot
    SELECT session, coalesce(CAST(floor(at / 900.0) AS BIGINT) * 900, -1),
        CASE WHEN kind IN ('reply', 'other') THEN coalesce(name, 0) ELSE 0 END,
        CASE WHEN kind <> 'reply' THEN 0
            WHEN coalesce(input, 0) + coalesce(cache_read, 0) + coalesce(cache_write, 0) > 272000 THEN 3
            WHEN coalesce(input, 0) + coalesce(cache_read, 0) + coalesce(cache_write, 0) > 200000 THEN 2
            WHEN coalesce(input, 0) + coalesce(cache_read, 0) + coalesce(cache_write, 0) > 100000 THEN 1 ELSE 0 END,
        count(*), sum(CASE WHEN kind = 'prompt' THEN 1 ELSE 0 END), sum(CASE WHEN kind = 'call' THEN 1 ELSE 0 END),
        sum(CASE WHEN kind = 'reply' THEN 1 ELSE 0 END), coalesce(sum(input), 0), coalesce(sum(output), 0),
        coalesce(sum(cache_read), 0), coalesce(sum(cache_write), 0), coalesce(sum(reasoning), 0), 0
    FROM act GROUP BY 1, 2, 3, 4;

-- The number of calls of a session by tool and outcome.
CREATE TABLE tool_outcome (
    session BIGINT NOT NULL REFERENCES session,
    tool BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (session, tool, outcome)
);
INSERT INTO tool_outcome
    SELECT session, coalesce(name, 0), coalesce(outcome, ''), count(*) FROM act WHERE kind = 'call' GROUP BY 1, 2, 3;

-- The subscription that an agent was used with, if its log names one.
ALTER TABLE session ADD COLUMN plan TEXT;

-- Roles have the same access to them as to `act`.
DO $$
DECLARE
    kind TEXT;
    who NAME;
BEGIN
    FOREACH kind IN ARRAY ARRAY['usage_slot', 'tool_outcome'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', kind);
        EXECUTE format(
            'CREATE POLICY reading ON %I FOR SELECT USING (session IN (SELECT readable_sessions(current_user)))', kind);
        EXECUTE format(
            'CREATE POLICY adding ON %I FOR INSERT WITH CHECK (may_change_session(session, current_user))', kind);
        EXECUTE format(
            'CREATE POLICY changing ON %I FOR UPDATE USING (may_change_session(session, current_user))', kind);
        EXECUTE format(
            'CREATE POLICY removing ON %I FOR DELETE USING (may_change_session(session, current_user))', kind);
        FOR who IN SELECT role FROM member LOOP
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO %I', kind, who);
        END LOOP;
    END LOOP;
END $$;

ALTER FUNCTION add_member(NAME, BOOLEAN) RENAME TO add_member_to_forgotten;
CREATE FUNCTION add_member(new_role NAME, may_read_all BOOLEAN DEFAULT FALSE) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM add_member_to_forgotten(new_role, may_read_all);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON usage_slot, tool_outcome TO %I', new_role);
END $$;
REVOKE EXECUTE ON FUNCTION add_member(NAME, BOOLEAN) FROM PUBLIC;
