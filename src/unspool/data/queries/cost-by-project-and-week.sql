-- How much do the tokens of each project cost per week?
-- plot: bar week usd
SELECT date_trunc('week', usage.timestamp)::DATE AS week, coalesce(project_name, '(unknown)') AS project,
    round(sum(cost_usd), 2) AS usd, sum(coalesce(input, 0) + coalesce(output, 0) + coalesce(cache_read, 0)
        + coalesce(cache_write, 0))::BIGINT AS tokens
FROM usage JOIN sessions USING (agent, session) GROUP BY ALL ORDER BY week, usd DESC NULLS LAST, project
