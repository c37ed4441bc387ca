-- How often does a tool succeed right after a failed call?
-- plot: barh tool recovered_percent
WITH steps AS (
    SELECT agent, session, tool_name AS tool, outcome, lead(outcome) OVER (
        PARTITION BY agent, session, branch, tool_name ORDER BY message_index, block_index) AS next_outcome
    FROM tool_calls WHERE NOT inherited
)
SELECT tool, count(*) AS failures, count(*) FILTER (next_outcome = 'ok') AS recovered,
    round(100.0 * recovered / failures, 1) AS recovered_percent
FROM steps WHERE outcome IN ('error', 'tool_use_error') GROUP BY tool ORDER BY failures DESC, tool
