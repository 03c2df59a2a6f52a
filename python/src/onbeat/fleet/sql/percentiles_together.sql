-- Exact percentiles of all samples of all machines together, as percentiles.sql by machine.
WITH b AS (
  SELECT h.low_ns, MAX(h.high_ns) AS high_ns, SUM(h.samples) AS n
  FROM histograms h JOIN cells c ON c.run = h.run AND c.tuning = h.tuning AND c.load = h.load AND c.series = h.series
  WHERE c.valid AND h.tuning = {tuning} AND h.load = {load} {where}
  GROUP BY h.low_ns),
r AS (
  SELECT high_ns, SUM(n) OVER (ORDER BY low_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far, SUM(n) OVER () AS n
  FROM b)
SELECT CAST(MAX(n) AS BIGINT) AS samples,
  MIN(CASE WHEN CAST(so_far AS BIGINT) * 2 >= CAST(n AS BIGINT) THEN high_ns END) AS p50_ns,
  MIN(CASE WHEN CAST(so_far AS BIGINT) * 100 >= 99 * CAST(n AS BIGINT) THEN high_ns END) AS p99_ns,
  MIN(CASE WHEN CAST(so_far AS BIGINT) * 1000 >= 999 * CAST(n AS BIGINT) THEN high_ns END) AS p999_ns,
  MIN(CASE WHEN CAST(so_far AS BIGINT) * 10000 >= 9999 * CAST(n AS BIGINT) THEN high_ns END) AS p9999_ns,
  MAX(high_ns) AS max_ns
FROM r
