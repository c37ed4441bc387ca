-- Why were branches left, and how much was thrown away?
-- plot: barh reason messages
SELECT reason, count(*) AS branches, sum(length)::BIGINT AS messages, max(length) AS longest FROM branches
GROUP BY reason ORDER BY messages DESC, reason
