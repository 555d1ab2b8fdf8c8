CREATE TYPE tablefunc_crosstab_2 AS (row_name text, category_1 text, category_2 text);
CREATE TYPE tablefunc_crosstab_3 AS (row_name text, category_1 text, category_2 text, category_3 text);
CREATE TYPE tablefunc_crosstab_4 AS (row_name text, category_1 text, category_2 text, category_3 text, category_4 text);
CREATE FUNCTION normal_rand(int4, float8, float8) RETURNS SETOF float8 LANGUAGE sql VOLATILE STRICT
    AS 'SELECT $2 + $3 * pg_catalog.sqrt(-2 * pg_catalog.ln(1 - pg_catalog.random())) * pg_catalog.cos(2 * pg_catalog.pi() * pg_catalog.random()) FROM pg_catalog.generate_series(1, tidegate.number_of_rows($1))';
