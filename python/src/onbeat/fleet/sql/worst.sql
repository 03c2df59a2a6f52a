-- Per machine: the largest lateness, and sums of ln(p99.9) in millionths, from which the mean over its runs and an interval follow.
SELECT c.host, COUNT(*) AS runs, CAST(SUM(c.slots) AS BIGINT) AS releases, MAX(c.max_ns) AS max_ns, MAX(c.p999_ns) AS p999_most_ns,
  CAST(SUM(c.p999_ln) AS BIGINT) AS s, CAST(SUM(c.p999_ln * c.p999_ln) AS BIGINT) AS q
FROM cells c
WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where}
GROUP BY c.host
ORDER BY c.host
