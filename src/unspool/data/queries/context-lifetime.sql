-- For how many requests do messages stay in context?
-- plot: barh author mean_requests
SELECT author, count(*) AS messages, round(avg(requests), 1) AS mean_requests, max(requests) AS most_requests
FROM (SELECT agent, session, message_index AS index, sum(requests) AS requests FROM contexts GROUP BY ALL)
JOIN messages USING (agent, session, index) GROUP BY author ORDER BY messages DESC, author
