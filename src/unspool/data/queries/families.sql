-- Which sessions have the most descendants?
-- plot: barh title followers
SELECT agent, source AS session, any_value(title) AS title, count(DISTINCT target) AS followers,
    string_agg(DISTINCT lineage.kind, ', ' ORDER BY lineage.kind) AS kinds
FROM (SELECT agent, source, target, kind FROM lineage) AS lineage
LEFT JOIN (SELECT agent, session AS source, title FROM sessions) USING (agent, source)
GROUP BY ALL ORDER BY followers DESC, session, agent LIMIT 20
