-- The runs of each machine in the order of time, with what names its software.
SELECT c.host, c.started_us, c.p999_ns, c.max_ns, r.kernel, r.board, r.bios, r.image
FROM cells c JOIN runs r ON r.run = c.run
WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where}
ORDER BY c.host, c.started_us, c.run
