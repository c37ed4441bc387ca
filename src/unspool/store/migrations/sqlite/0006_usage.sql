-- The part of `cache_write` that stays in the cache for an hour. It is unknown for existing rows.
ALTER TABLE act ADD COLUMN cache_write_1h INTEGER;

-- The rows of `act` added up by quarter of an hour, so that statistics need not read all of them. `size` is how many of
-- 100,000, 200,000 and 272,000 tokens the input of a request exceeds, because some prices depend on it. `count` is the
-- number of rows of `act`; those that name no model have 0 for it.
CREATE TABLE usage_slot (
    session INTEGER NOT NULL REFERENCES session,
    slot INTEGER NOT NULL,
    model INTEGER NOT NULL,
    size INTEGER NOT NULL,
    count INTEGER NOT NULL,
    prompts INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    replies INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cache_write_1h INTEGER NOT NULL,
    PRIMARY KEY (session, slot, model, size)
) WITHOUT ROWID;
INSERT INTO usage_slot
    SELECT session, coalesce(CAST(floor(at / 900.0) AS INTEGER) * 900, -1),
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
    session INTEGER NOT NULL REFERENCES session,
    tool INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (session, tool, outcome)
) WITHOUT ROWID;
INSERT INTO tool_outcome
    SELECT session, coalesce(name, 0), coalesce(outcome, ''), count(*) FROM act WHERE kind = 'call' GROUP BY 1, 2, 3;

-- The subscription that an agent was used with, if its log names one.
ALTER TABLE session ADD COLUMN plan TEXT;
