-- Tables, views that can be published, and queries that cannot be, with why: see tests/clients/test_published_views.py.

-- setup
CREATE SCHEMA shop

-- setup
ALTER SCHEMA shop SET (iceberg = 'on')

-- setup
CREATE TABLE shop.t (a int, b bigint, n numeric(10, 2), m numeric(20, 4), x float8, s text, v varchar(10), d date, ts timestamp, tz timestamptz, f boolean)

-- setup
INSERT INTO shop.t VALUES
(1, 10, 1.50, -2.12345, 1.5, 'it''s', 'a', '2024-01-31', '2024-01-31 10:20:30.5', '2024-01-31 10:00+00', true),
(-7, 3, -2.55, 3, 'NaN', 'b\c%', 'it''s', '2024-02-29', '1999-12-31 23:59:59.999999', '2020-06-01 00:00+02', false),
(7, -2, 0.05, 0.5, -0.25, 'Ä€😀', 'ä', '2023-12-31', '2024-06-01', '2024-06-01 12:00-05', NULL),
(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
(7, 9000000000000000000, 99999999.99, 1.00005, 'Infinity', '', 'zz', '1970-01-01', '1970-01-01', '1970-01-01 00:00+00', true),
(2, 9000000000000000000, 1.50, 2, 2, 'a', 'b', '2024-01-31', '2024-01-31 10:20:30.5', '2024-01-31 10:00+00', false)

-- setup
CREATE TABLE shop.u (a int, label text)

-- setup
INSERT INTO shop.u VALUES (1, 'one'), (7, 'seven'), (7, 'SEVEN'), (NULL, 'none'), (9, NULL)

-- view division
SELECT a, b / 3 AS q, b % 3 AS r, a / 2 AS h, a % 2 AS o, -a AS g, abs(a) AS p FROM t WHERE b < 1000

-- view numerics
SELECT n + 1.5 AS p, n - m AS d, n * n AS w, -n AS g, abs(n) AS b, n * 3 AS t FROM t

-- view rounded
SELECT round(n, 1) AS o, round(n) AS r, floor(n) AS f, ceil(m) AS c, n::int AS i, m::numeric(10, 1) AS m FROM t

-- view floats
SELECT x + 1 AS p, x * 2 AS m, x / 4 AS q, x = 'NaN' AS n, x > 1.5 AS g, x <= 2 AS l, x <> 2 AS o FROM t

-- view texts
SELECT s || '-' || v AS j, length(s) AS l, replace(s, 'b', 'B') AS r, substr(s, 2, 1) AS c, 'it''s \n' AS k FROM t

-- view patterns
SELECT s LIKE 'it_s' AS i, s NOT LIKE '%c%' AS n, s = v AS e, s < v AS l, s >= 'a' AS g FROM t

-- view dates
SELECT d + 1 AS n, d - 31 AS p, d - '2024-01-01'::date AS s, extract(year FROM d) AS y, extract(month FROM ts) AS m,
date_part('quarter', d) AS q, extract(hour FROM ts) AS h, d::timestamp AS t, d < '2024-02-01' AS l FROM t

-- view moments
SELECT ts, tz, tz > '2024-01-31 11:00+02' AS g, ts = '2024-01-31 10:20:30.5' AS e FROM t

-- view casts
SELECT a::text AS t, a::bigint AS b, a::float8 AS f, a::numeric AS n, d::text AS d, f::text AS o, f::int AS i,
a::numeric(12, 3) AS m, n::bigint AS w FROM t

-- view logic
SELECT f IS TRUE AS t, f IS NOT TRUE AS n, f IS FALSE AS u, f IS UNKNOWN AS k, NOT f AS o, f AND a > 1 AS a, f OR a >
1 AS r, a IS NULL AS l, a IS DISTINCT FROM 7 AS d, a IS NOT DISTINCT FROM NULL AS e FROM t

-- view cases
SELECT CASE WHEN a > 1 THEN 'more' WHEN a < 0 THEN 'less' END AS c, CASE a WHEN 7 THEN s ELSE v END AS d, coalesce(a,
0) AS e, nullif(a, 7) AS f, a IN (1, 7, NULL) AS i, a NOT IN (1, 2) AS o, a BETWEEN 1 AND 2 AS b FROM t

-- view grouped
SELECT a, count(*) AS c, count(s) AS k, count(DISTINCT b) AS d, sum(a) AS s, sum(b) AS w, sum(n) AS n, min(s) AS i,
max(d) AS m, bool_and(f) AS l, bool_or(f) AS r FROM t GROUP BY a

-- view filtered
SELECT count(*) FILTER (WHERE a > 1) AS c, sum(n) FILTER (WHERE f) AS s, sum(b) FILTER (WHERE b < 100) AS b FROM t

-- view having
SELECT s IS NULL AS k, sum(a) + 1 AS s FROM t GROUP BY s IS NULL HAVING count(*) > 0

-- view empty
SELECT sum(a) AS s, count(*) AS c, avg(x) AS x FROM t WHERE a > 1000

-- view joined
SELECT t.a, u.label FROM t JOIN u ON t.a = u.a AND u.label <> 'x'

-- view outer
SELECT t.s, w.l FROM t LEFT JOIN (SELECT a, coalesce(label, 'no') AS l FROM u WHERE a > 0) w USING (a)

-- view full
SELECT t.b, u.label FROM t FULL JOIN u ON t.a = u.a

-- view crossed
SELECT t.a AS x, u.a AS y FROM t, u WHERE t.b < 100 AND u.label IS NOT NULL

-- view exist
SELECT a, s FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) OR a = 2

-- view absent
SELECT a FROM t WHERE NOT EXISTS (SELECT FROM u WHERE u.a = t.a)

-- view inside
SELECT a FROM t WHERE a IN (SELECT a FROM u WHERE label IS NOT NULL)

-- view outside
SELECT a FROM t WHERE a NOT IN (SELECT a FROM u WHERE a IS NOT NULL)

-- view listed
SELECT a, EXISTS (SELECT a FROM u WHERE a = 9) AS e, NOT EXISTS (SELECT a FROM u WHERE a > 9) AS n FROM t

-- view inside_or
SELECT a, n FROM t WHERE a IN (SELECT a FROM u) OR f

-- view outside_or
SELECT a, n FROM t WHERE a NOT IN (SELECT a FROM u WHERE a IS NOT NULL) OR b = 10

-- view outside_null
SELECT a, n FROM t WHERE (a NOT IN (SELECT a FROM u) OR a = 2) AND n > 0

-- view scalar
SELECT a - (SELECT max(a) FROM u) AS m FROM t

-- view ranked
SELECT a, b, row_number() OVER (ORDER BY b DESC, d, n) AS r, rank() OVER (ORDER BY a) AS k, dense_rank() OVER
(PARTITION BY f ORDER BY a NULLS FIRST) AS e FROM t

-- view running
SELECT d, sum(a) OVER (ORDER BY d, n) AS s, sum(n) OVER (PARTITION BY f) AS n, count(*) OVER () AS c, max(a) OVER
(ORDER BY d, n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m, lag(a) OVER (ORDER BY d, n) AS l FROM t

-- view united
SELECT a, s FROM t UNION SELECT a, label FROM u

-- view all_of
SELECT a::bigint AS a FROM u UNION ALL SELECT b FROM t

-- view excepted
SELECT a FROM t EXCEPT SELECT a FROM u

-- view both
SELECT a FROM t INTERSECT ALL SELECT a FROM u

-- view single
SELECT DISTINCT a, f FROM t

-- view first
SELECT a, s FROM t ORDER BY a DESC NULLS LAST, n LIMIT 2 OFFSET 1

-- view common
WITH w AS (SELECT a, count(*) AS c FROM t GROUP BY a) SELECT w.a, w.c, o.c AS d FROM w LEFT JOIN w o ON o.a = w.c

-- view constants
SELECT * FROM (VALUES (1, 'a', 1.25), (2, NULL, -0.25)) AS w (i, t, n)

-- view above
SELECT c, count(*) AS n FROM common GROUP BY c

-- refused: Function lower\(text\)
SELECT lower(s) FROM t

-- refused: Operator /\(numeric, numeric\)
SELECT n / 3 AS q FROM t

-- refused: Aggregate avg\(integer\)
SELECT avg(a) FROM t

-- refused: What depends on the session or the time
SELECT now() AS n FROM t

-- refused: ARRAY
SELECT ARRAY[a] AS r FROM t

-- refused: ~~\*
SELECT s ILIKE 'a' AS i FROM t

-- refused: LIKE of a pattern that is no constant
SELECT s LIKE v AS i FROM t

-- refused: ORDER BY values of type double precision
SELECT x FROM t ORDER BY x LIMIT 1

-- refused: GROUP BY values of type double precision
SELECT x, count(*) FROM t GROUP BY x

-- refused: Operator /\(numeric, numeric\)
SELECT sum(n) / count(*) AS q FROM t

-- refused: IN \(subquery\) anywhere but in a condition
SELECT a, a IN (SELECT a FROM u) AS i FROM t

-- refused: IN \(subquery\) anywhere but in a condition
SELECT a FROM t WHERE (a IN (SELECT a FROM u)) IS NOT TRUE

-- refused: IN \(subquery\) anywhere but in a condition
SELECT a FROM t WHERE NOT (a IN (SELECT a FROM u) AND f)

-- refused: DISTINCT ON
SELECT DISTINCT ON (a) a, s FROM t ORDER BY a

-- refused: A function in FROM
SELECT g FROM generate_series(1, 2) g

-- refused: interval
SELECT ts + interval '1 day' AS i FROM t

-- refused: A cast from text to integer
SELECT a::text::int AS i FROM t

-- refused: A cast from double precision to integer
SELECT x::int AS i FROM t

-- refused: A cast from text to character varying\(1\)
SELECT s::varchar(1) AS i FROM t

-- refused: GROUPING SETS
SELECT a, count(*) FROM t GROUP BY ROLLUP (a)

-- refused: GREATEST
SELECT greatest(a, b) AS g FROM t

-- refused: WITH RECURSIVE
WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) SELECT i FROM r

-- refused: Function date_trunc
SELECT date_trunc('month', ts) AS m FROM t

-- refused: LATERAL
SELECT t.a, w.l FROM t, LATERAL (SELECT label AS l FROM u WHERE u.a = t.a) w

-- refused: A subquery that refers to an outer query
SELECT (SELECT max(label) FROM u WHERE u.a = t.a) AS l FROM t

-- refused: It reads table "hidden", which is not published
SELECT id FROM hidden

-- refused: has row-level security
SELECT id FROM secured

-- refused: A relation of the system
SELECT relname::text FROM pg_class

-- refused: (?i)column of the system|tid
SELECT ctid FROM t

-- refused: Names of columns that differ in case alone
SELECT a AS "A", b AS a FROM t

-- refused: It reads view "unpublished", which is not published
SELECT id FROM unpublished
