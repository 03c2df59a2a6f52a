-- Per machine and run: samples, and those in buckets that reach beyond the limit; skipped releases are beyond it where they are asked for.
-- Where the largest sample is within most_ns, no sample is beyond; -1: buckets alone decide.
SELECT h.host, h.run, CAST(SUM(h.samples) AS BIGINT) AS samples,
  CAST(SUM(CASE WHEN h.high_ns > {limit_ns} AND c.max_ns > {most_ns} OR h.series <> c.series THEN h.samples ELSE 0 END) AS BIGINT) AS beyond,
  MAX(CASE WHEN h.series = c.series THEN h.high_ns ELSE 0 END) AS max_ns
FROM histograms h JOIN cells c ON c.run = h.run AND c.tuning = h.tuning AND c.load = h.load
WHERE c.valid AND h.tuning = {tuning} AND h.load = {load} AND h.series IN ({counted}) {where}
GROUP BY h.host, h.run
ORDER BY h.host, h.run
