-- Two groups of runs, paired by machine: the mean of ln(p99.9) of the second minus that of the first, in millionths.
WITH a AS (
  SELECT c.host, CAST(SUM(c.p999_ln) AS BIGINT) AS s, COUNT(*) AS m, MAX(c.max_ns) AS max_ns FROM cells c
  WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where} {first} GROUP BY c.host),
b AS (
  SELECT c.host, CAST(SUM(c.p999_ln) AS BIGINT) AS s, COUNT(*) AS m, MAX(c.max_ns) AS max_ns FROM cells c
  WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where} {second} GROUP BY c.host)
SELECT a.host, a.m AS runs_first, b.m AS runs_second, CAST(b.s * a.m - a.s * b.m AS DOUBLE) / CAST(a.m * b.m AS DOUBLE) AS d_ppm,
  a.max_ns AS max_first_ns, b.max_ns AS max_second_ns
FROM a JOIN b ON a.host = b.host
ORDER BY a.host
