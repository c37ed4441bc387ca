-- Which files do agents work on most?
-- plot: barh path calls
SELECT path, count(*) AS calls, count(DISTINCT session) AS sessions FROM files_touched
GROUP BY path ORDER BY calls DESC, path LIMIT 20
