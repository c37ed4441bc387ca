-- How long does it take from a prompt to the last answer?
-- plot: barh model median_seconds
WITH turns AS (
    SELECT agent, session, index, timestamp,
        lead(index) OVER (PARTITION BY agent, session ORDER BY index) AS next_index
    FROM messages WHERE author = 'human' AND role = 'user' AND branch = 0 AND NOT inherited AND NOT queued
), answers AS (
    SELECT turns.agent, turns.session, turns.index, any_value(turns.timestamp) AS asked,
        max(messages.timestamp) AS answered, arg_max(messages.model, messages.index) AS model
    FROM turns JOIN messages ON messages.agent = turns.agent AND messages.session = turns.session
        AND messages.index > turns.index AND (turns.next_index IS NULL OR messages.index < turns.next_index)
    WHERE messages.author = 'model' AND messages.branch = 0 GROUP BY ALL
)
SELECT model, count(*) AS turns, round(median(epoch(answered - asked)), 1) AS median_seconds,
    round(quantile_cont(epoch(answered - asked), 0.9), 1) AS slowest_tenth
FROM answers GROUP BY model ORDER BY turns DESC, model
