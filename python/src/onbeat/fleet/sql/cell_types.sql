-- Cell types and their series, the one that most machines have first; of equal ones that with most tuning and load.
SELECT c.tuning, c.load, c.series, COUNT(DISTINCT c.host) AS hosts, COUNT(*) AS runs, CAST(SUM(c.slots) AS BIGINT) AS releases
FROM cells c
WHERE c.valid {where}
GROUP BY c.tuning, c.load, c.series
ORDER BY hosts DESC, runs DESC, CASE WHEN c.tuning = 'none' THEN 0 ELSE LENGTH(c.tuning) END DESC, c.tuning, CASE WHEN c.load = 'idle' THEN 1 ELSE 0 END, c.load,
  CASE WHEN c.series = 'release_latency' THEN 0 ELSE 1 END, c.series
