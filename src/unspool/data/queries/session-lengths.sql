-- How long are sessions, by agent?
-- plot: barh agent median_messages
SELECT agent, kind, count(*) AS sessions, median(messages) AS median_messages, max(messages) AS most_messages,
    round(median(epoch(ended_at - started_at)) / 60, 1) AS median_minutes
FROM sessions GROUP BY ALL ORDER BY agent, kind
