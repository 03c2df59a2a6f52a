-- Per machine: runs, and runs of which at most the allowed share of releases was later than the limit.
SELECT c.host, COUNT(*) AS runs, CAST(SUM(CASE WHEN c.{percentile} <= {limit_ns} THEN 1 ELSE 0 END) AS BIGINT) AS held,
  MAX(c.{percentile}) AS worst_ns, CAST(SUM(c.slots) AS BIGINT) AS releases
FROM cells c
WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where}
GROUP BY c.host
ORDER BY c.host
