-- Facts that changed on a machine, and settings that were as wanted in some of its runs, run by run.
WITH r AS (SELECT c.run, c.host FROM cells c WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where} AND c.started_us >= 946684800000000),
n AS (SELECT host, COUNT(*) AS runs FROM r GROUP BY host),
v AS (SELECT r.host, f.name FROM facts f JOIN r ON r.run = f.run GROUP BY r.host, f.name HAVING COUNT(DISTINCT f.value) > 1),
w AS (
  SELECT t.name FROM settings t JOIN r ON r.run = t.run JOIN n ON n.host = r.host
  GROUP BY t.name, n.host, n.runs HAVING COUNT(DISTINCT t.run) < n.runs)
SELECT f.name, f.run, f.value
FROM facts f JOIN r ON r.run = f.run
WHERE f.name IN (SELECT name FROM v)
UNION ALL
SELECT DISTINCT CONCAT('setting ', t.name) AS name, t.run, 'not as wanted' AS value
FROM settings t JOIN r ON r.run = t.run
WHERE t.name IN (SELECT name FROM w)
ORDER BY 1, 2, 3
