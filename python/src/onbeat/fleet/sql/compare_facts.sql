-- Facts that have not one value in both groups, by machine.
SELECT f.name, f.host
FROM facts f JOIN cells c ON c.run = f.run
WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where}
  AND (c.run IN (SELECT c.run FROM cells c WHERE c.valid {first}) OR c.run IN (SELECT c.run FROM cells c WHERE c.valid {second}))
GROUP BY f.name, f.host
HAVING COUNT(DISTINCT f.value) > 1
ORDER BY f.name, f.host
