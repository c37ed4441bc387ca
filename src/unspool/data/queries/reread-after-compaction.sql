-- Which files are used both before and after a compaction?
-- plot: barh path times
SELECT after.path, count(*) AS times, count(DISTINCT after.session) AS sessions
FROM compactions
JOIN files_touched AS after ON after.agent = compactions.agent AND after.session = compactions.session
    AND after.message_index > compactions.message_index
WHERE NOT compactions.inherited AND EXISTS (
    FROM files_touched AS before WHERE before.agent = after.agent AND before.session = after.session
        AND before.path = after.path AND before.message_index < compactions.message_index)
GROUP BY after.path ORDER BY times DESC, after.path LIMIT 20
