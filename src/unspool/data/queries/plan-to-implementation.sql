-- How do plans end: approved, rejected or interrupted?
-- plot: barh outcome plans
SELECT outcome, count(*) AS plans, count(DISTINCT session) AS sessions,
    round(avg(length(input ->> '$.plan'))) AS characters
FROM tool_calls WHERE json_exists(input, '$.plan') GROUP BY outcome ORDER BY plans DESC, outcome
