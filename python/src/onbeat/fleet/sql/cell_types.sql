-- Cell types, the one that most machines have first.
SELECT c.tuning, c.load, COUNT(DISTINCT c.host) AS hosts, COUNT(*) AS runs, CAST(SUM(c.slots) AS BIGINT) AS releases
FROM cells c
WHERE c.valid {where}
GROUP BY c.tuning, c.load
ORDER BY hosts DESC, runs DESC, releases DESC, c.tuning DESC, c.load DESC
