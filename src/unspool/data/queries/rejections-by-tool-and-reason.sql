-- What is rejected, by whom, and why?
-- plot: barh tool rejections
SELECT tool_name AS tool, "by", coalesce(reason, '(no reason given)') AS reason, count(*) AS rejections
FROM rejections GROUP BY ALL ORDER BY rejections DESC, tool, reason, "by" LIMIT 30
