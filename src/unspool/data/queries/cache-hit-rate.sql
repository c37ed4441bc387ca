-- How much of the input is read from the cache?
-- plot: barh model percent
SELECT model, count(*) AS requests, sum(cache_read)::BIGINT AS from_cache,
    sum(coalesce(input, 0) + coalesce(cache_read, 0) + coalesce(cache_write, 0))::BIGINT AS all_input,
    round(100.0 * from_cache / nullif(all_input, 0), 1) AS percent
FROM usage GROUP BY model ORDER BY all_input DESC, model
