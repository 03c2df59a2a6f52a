-- Per machine and run: samples, and those in buckets that reach beyond the limit.
SELECT h.host, h.run, CAST(SUM(h.samples) AS BIGINT) AS samples,
  CAST(SUM(CASE WHEN h.high_ns > {limit_ns} THEN h.samples ELSE 0 END) AS BIGINT) AS beyond, MAX(h.high_ns) AS max_ns
FROM histograms h JOIN cells c ON c.run = h.run AND c.tuning = h.tuning AND c.load = h.load AND c.series = h.series
WHERE c.valid AND h.tuning = {tuning} AND h.load = {load} {where}
GROUP BY h.host, h.run
ORDER BY h.host, h.run
