-- At which hours (UTC) do people write prompts?
-- plot: bar hour prompts
SELECT hour(timestamp AT TIME ZONE 'UTC') AS hour, count(*) AS prompts FROM messages
WHERE author = 'human' AND role = 'user' AND NOT inherited AND timestamp IS NOT NULL GROUP BY 1 ORDER BY 1
