CREATE OR REPLACE VIEW totals AS
SELECT name, sum(amount) AS total FROM customers LEFT JOIN orders ON customer = customers.id GROUP BY name;
