-- Exact percentiles of all samples together, by machine: the largest value of the bucket that holds rank ceil(p n). Whole numbers only.
WITH b AS (
  SELECT h.host, h.low_ns, MAX(h.high_ns) AS high_ns, SUM(h.samples) AS n
  FROM histograms h JOIN cells c ON c.run = h.run AND c.tuning = h.tuning AND c.load = h.load AND c.series = h.series
  WHERE c.valid AND h.tuning = {tuning} AND h.load = {load} {where}
  GROUP BY h.host, h.low_ns),
r AS (
  SELECT host, high_ns,
    SUM(n) OVER (PARTITION BY host ORDER BY low_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far,
    SUM(n) OVER (PARTITION BY host) AS n
  FROM b)
SELECT host, CAST(MAX(n) AS BIGINT) AS samples,
  MIN(CASE WHEN CAST(so_far AS BIGINT) * 2 >= CAST(n AS BIGINT) THEN high_ns END) AS p50_ns,
  MIN(CASE WHEN CAST(so_far AS BIGINT) * 100 >= 99 * CAST(n AS BIGINT) THEN high_ns END) AS p99_ns,
  MIN(CASE WHEN CAST(so_far AS BIGINT) * 1000 >= 999 * CAST(n AS BIGINT) THEN high_ns END) AS p999_ns,
  MIN(CASE WHEN CAST(so_far AS BIGINT) * 10000 >= 9999 * CAST(n AS BIGINT) THEN high_ns END) AS p9999_ns,
  MAX(high_ns) AS max_ns
FROM r
GROUP BY host
ORDER BY host
