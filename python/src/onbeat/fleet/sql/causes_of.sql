-- What the causes of causes.sql are out of.
SELECT f.value, COUNT(DISTINCT c.host) AS hosts, COUNT(*) AS runs, CAST(SUM(c.slots) AS BIGINT) AS releases,
  CAST(SUM(c.spikes) AS BIGINT) AS spikes
FROM cells c JOIN {values} f ON f.run = c.run
WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where}
GROUP BY f.value
ORDER BY f.value
