-- The runs of each machine in the order of time, without those of a clock that was not set, or of files that do not say: before 2000.
SELECT c.host, c.started_us, c.run, c.p999_ln
FROM cells c
WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where} AND c.started_us >= 946684800000000
ORDER BY c.host, c.started_us, c.run
