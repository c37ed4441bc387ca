-- Which tools take longest, including waiting for approval?
-- plot: barh tool hours
SELECT tool_name AS tool, count(*) AS calls, round(sum(duration_ms) / 3.6e6, 3) AS hours,
    median(duration_ms)::BIGINT AS median_ms, max(duration_ms) AS longest_ms
FROM tool_calls WHERE NOT inherited AND duration_ms >= 0 GROUP BY 1 ORDER BY hours DESC, tool LIMIT 20
