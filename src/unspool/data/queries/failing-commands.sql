-- Which commands fail most often?
-- plot: barh command failures
SELECT regexp_extract(trim(command), '^\S+(\s+[a-z][\w-]*)?') AS command, count(*) AS calls,
    count(*) FILTER (outcome = 'error') AS failures, round(100.0 * failures / calls, 1) AS percent
FROM tool_calls WHERE command IS NOT NULL AND NOT inherited
GROUP BY 1 HAVING failures > 0 ORDER BY failures DESC, calls DESC, 1 LIMIT 20
