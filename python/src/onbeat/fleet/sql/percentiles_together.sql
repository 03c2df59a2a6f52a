-- Exact percentiles of all samples of all machines together, as percentiles.sql by machine.
WITH b AS (
  SELECT h.low_ns, MAX(h.high_ns) AS high_ns, CAST(SUM(h.samples) AS BIGINT) AS m
  FROM histograms h JOIN cells c ON c.run = h.run AND c.tuning = h.tuning AND c.load = h.load AND c.series = h.series
  WHERE c.valid AND h.tuning = {tuning} AND h.load = {load} {where}
  GROUP BY h.low_ns),
r AS (
  SELECT high_ns, m, CAST(SUM(m) OVER () AS BIGINT) AS n,
    CAST(SUM(m) OVER (ORDER BY low_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS BIGINT) AS so_far
  FROM b)
SELECT MAX(n) AS samples,
  MAX(CASE WHEN n BETWEEN 2 * (so_far - m) + 1 AND 2 * so_far THEN high_ns END) AS p50_ns,
  MAX(CASE WHEN 99 * n BETWEEN 100 * (so_far - m) + 1 AND 100 * so_far THEN high_ns END) AS p99_ns,
  MAX(CASE WHEN 999 * n BETWEEN 1000 * (so_far - m) + 1 AND 1000 * so_far THEN high_ns END) AS p999_ns,
  MAX(CASE WHEN 9999 * n BETWEEN 10000 * (so_far - m) + 1 AND 10000 * so_far THEN high_ns END) AS p9999_ns,
  MAX(high_ns) AS max_ns
FROM r
