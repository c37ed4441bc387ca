-- How many tokens does each model use per day?
-- plot: bar day output
SELECT usage.timestamp::DATE AS day, model, count(*) AS requests, sum(input)::BIGINT AS input,
    sum(output)::BIGINT AS output, sum(cache_read)::BIGINT AS cache_read
FROM usage WHERE message_index IS NOT NULL GROUP BY ALL ORDER BY day, model
