-- Why were branches abandoned, and how much work was lost?
-- plot: barh reason messages
SELECT reason, count(*) AS branches, sum(length)::BIGINT AS messages, max(length) AS longest FROM branches
GROUP BY reason ORDER BY messages DESC, reason
