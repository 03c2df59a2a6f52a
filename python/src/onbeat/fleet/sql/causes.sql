-- Causes of spikes by the value of a fact or a setting, with the machines that have them.
SELECT f.value, k.kind, k.culprit, COUNT(DISTINCT k.host) AS hosts, CAST(SUM(k.spikes) AS BIGINT) AS spikes, MAX(k.worst_ns) AS worst_ns
FROM causes k JOIN cells c ON c.run = k.run AND c.tuning = k.tuning AND c.load = k.load JOIN {values} f ON f.run = k.run
WHERE c.valid AND c.tuning = {tuning} AND c.load = {load} {where}
GROUP BY f.value, k.kind, k.culprit
ORDER BY f.value, spikes DESC, k.kind, k.culprit
