-- The runs of each machine in the order of time.
SELECT c.host, c.started_us, c.run, c.p999_ln
FROM cells c
WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where}
ORDER BY c.host, c.started_us, c.run
