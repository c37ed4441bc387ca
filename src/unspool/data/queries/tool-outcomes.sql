-- How do calls end, by tool?
-- plot: barh tool calls
SELECT tool_name AS tool, count(*) AS calls, count(*) FILTER (outcome = 'ok') AS ok,
    count(*) FILTER (outcome IN ('error', 'tool_use_error')) AS failed, count(*) FILTER (outcome = 'rejected') AS rejected,
    count(*) FILTER (outcome = 'interrupted') AS interrupted, count(*) FILTER (unfinished IS NOT NULL) AS unfinished
FROM tool_calls WHERE NOT inherited GROUP BY 1 ORDER BY calls DESC, tool LIMIT 30
