-- Cells that no question counts, and why.
SELECT c.invalid_why AS why, COUNT(*) AS cells, COUNT(DISTINCT c.host) AS hosts
FROM cells c
WHERE NOT c.valid {where}
GROUP BY c.invalid_why
ORDER BY cells DESC, why
