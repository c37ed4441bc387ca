-- Which files are damaged or have unknown lines?
-- plot: barh reason problems
SELECT reason, coalesce(source_file, '(no file)') AS file, count(*) AS problems, min(detail) AS example
FROM problems GROUP BY ALL ORDER BY problems DESC, file, reason LIMIT 30
