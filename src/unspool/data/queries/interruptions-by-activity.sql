-- What are agents doing when they are interrupted?
-- plot: barh during interruptions
SELECT during, "type" AS who, count(*) AS interruptions, count(DISTINCT session) AS sessions
FROM interruptions GROUP BY ALL ORDER BY interruptions DESC, during, who
