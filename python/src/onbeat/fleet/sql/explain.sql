-- Per fact or setting, value and machine: its runs. A setting that is as wanted has no row.
SELECT f.name, f.value, c.host, COUNT(*) AS runs
FROM cells c JOIN facts f ON f.run = c.run
WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where}
GROUP BY f.name, f.value, c.host
UNION ALL
SELECT CONCAT('setting ', t.name) AS name, t.value, c.host, COUNT(*) AS runs
FROM cells c JOIN settings t ON t.run = c.run
WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where}
GROUP BY t.name, t.value, c.host
ORDER BY 1, 2, 3
