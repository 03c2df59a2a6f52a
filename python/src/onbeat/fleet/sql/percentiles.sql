-- Exact percentiles of all samples together, by machine: the largest value of the bucket that holds rank ceil(p n). Whole numbers only.
-- First in steps of 1,024 ns, then the buckets of those steps alone that hold a rank: most buckets are never grouped and sorted.
WITH c AS (
  SELECT c.run, c.series, c.host, DENSE_RANK() OVER (ORDER BY c.host) AS place
  FROM cells c
  WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where}),
w AS (
  SELECT c.place, h.low_ns - h.low_ns % 1024 AS step, CAST(SUM(h.samples) AS BIGINT) AS m, MAX(h.high_ns) AS max_ns
  FROM histograms h JOIN c ON c.run = h.run AND c.series = h.series
  WHERE h.tuning = {tuning} AND h.load = {load}
  GROUP BY c.place, h.low_ns - h.low_ns % 1024),
s AS (
  SELECT place, step, m, MAX(max_ns) OVER (PARTITION BY place) AS max_ns, CAST(SUM(m) OVER (PARTITION BY place) AS BIGINT) AS n,
    CAST(SUM(m) OVER (PARTITION BY place ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS BIGINT) AS so_far
  FROM w),
k AS (
  SELECT place, step, so_far - m AS below, n, max_ns
  FROM s
  WHERE n BETWEEN 2 * (so_far - m) + 1 AND 2 * so_far OR 99 * n BETWEEN 100 * (so_far - m) + 1 AND 100 * so_far
    OR 999 * n BETWEEN 1000 * (so_far - m) + 1 AND 1000 * so_far OR 9999 * n BETWEEN 10000 * (so_far - m) + 1 AND 10000 * so_far),
p AS (SELECT c.run, c.series, c.host, k.step, k.below, k.n, k.max_ns FROM c JOIN k ON k.place = c.place),
b AS (
  SELECT p.host, p.step, p.below, p.n, p.max_ns, h.low_ns, MAX(h.high_ns) AS high_ns, CAST(SUM(h.samples) AS BIGINT) AS m
  FROM histograms h JOIN p ON p.run = h.run AND p.series = h.series AND p.step = h.low_ns - h.low_ns % 1024
  WHERE h.tuning = {tuning} AND h.load = {load}
  GROUP BY p.host, p.step, p.below, p.n, p.max_ns, h.low_ns),
r AS (
  SELECT host, n, max_ns, high_ns, m,
    below + CAST(SUM(m) OVER (PARTITION BY host, step ORDER BY low_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS BIGINT) AS so_far
  FROM b)
SELECT host, MAX(n) AS samples,
  MAX(CASE WHEN n BETWEEN 2 * (so_far - m) + 1 AND 2 * so_far THEN high_ns END) AS p50_ns,
  MAX(CASE WHEN 99 * n BETWEEN 100 * (so_far - m) + 1 AND 100 * so_far THEN high_ns END) AS p99_ns,
  MAX(CASE WHEN 999 * n BETWEEN 1000 * (so_far - m) + 1 AND 1000 * so_far THEN high_ns END) AS p999_ns,
  MAX(CASE WHEN 9999 * n BETWEEN 10000 * (so_far - m) + 1 AND 10000 * so_far THEN high_ns END) AS p9999_ns,
  MAX(max_ns) AS max_ns
FROM r
GROUP BY host
ORDER BY host
