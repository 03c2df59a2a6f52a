-- Facts and settings that have not one value in both groups, by machine. A setting that is as wanted has no row.
WITH r AS (
  SELECT c.run, c.host FROM cells c
  WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where}
    AND (c.run IN (SELECT c.run FROM cells c WHERE c.valid {first}) OR c.run IN (SELECT c.run FROM cells c WHERE c.valid {second}))),
n AS (SELECT host, COUNT(*) AS runs FROM r GROUP BY host)
SELECT f.name, r.host
FROM facts f JOIN r ON r.run = f.run
GROUP BY f.name, r.host
HAVING COUNT(DISTINCT f.value) > 1
UNION ALL
SELECT CONCAT('setting ', t.name) AS name, n.host
FROM settings t JOIN r ON r.run = t.run JOIN n ON n.host = r.host
GROUP BY t.name, n.host, n.runs
HAVING COUNT(DISTINCT t.value) > 1 OR COUNT(DISTINCT t.run) < n.runs
ORDER BY 1, 2
