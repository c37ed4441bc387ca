-- How much smaller does a compaction make the context?
-- plot: barh trigger mean_before
SELECT agent, coalesce("trigger", '(unknown)') AS "trigger", count(*) AS compactions,
    round(avg(pre_tokens)) AS mean_before, round(avg(post_tokens)) AS mean_after,
    round(avg(len(replaced_message_indices))) AS messages_replaced
FROM compactions WHERE NOT inherited GROUP BY ALL ORDER BY compactions DESC, agent, 2
