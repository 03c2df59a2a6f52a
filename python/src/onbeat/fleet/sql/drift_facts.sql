-- Facts that changed on a machine, run by run.
WITH v AS (
  SELECT f.host, f.name FROM facts f JOIN cells c ON c.run = f.run
  WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where}
  GROUP BY f.host, f.name HAVING COUNT(DISTINCT f.value) > 1)
SELECT f.name, f.run, f.value
FROM facts f JOIN cells c ON c.run = f.run
WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where} AND f.name IN (SELECT name FROM v)
ORDER BY f.name, f.run, f.value
