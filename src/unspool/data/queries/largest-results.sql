-- Which tools add the most text to the context?
-- plot: barh tool characters
SELECT tool_name AS tool, count(*) AS calls, sum(length(result))::BIGINT AS characters, max(length(result)) AS largest
FROM tool_calls WHERE result IS NOT NULL GROUP BY 1 ORDER BY characters DESC, tool LIMIT 20
