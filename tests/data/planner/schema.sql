CREATE TABLE t (a integer PRIMARY KEY, b text NOT NULL, c numeric(12,2), d date, e varchar(80), f double precision, g boolean, h timestamptz, i timestamp, j jsonb, k integer[], l bigint, m char(5), n interval, o uuid, p bytea, q real, r smallint, s numeric, v time, w json, x text[], y timestamp(3), z time with time zone);
CREATE TABLE u (a bigint, x text, y integer DEFAULT 7, z numeric(5,1) DEFAULT 1.5);
CREATE TABLE "Weird Table" ("Col A" integer, "select" text);
CREATE TABLE empty ();
CREATE TABLE people (id integer NOT NULL, name varchar(20) DEFAULT 'x', born date DEFAULT CURRENT_DATE, salary numeric(8,2), tags text[] DEFAULT '{}', active boolean DEFAULT true);
CREATE VIEW v1 AS SELECT a, b AS bee, c * 2 AS twice, count(*) OVER () AS total FROM t;
CREATE VIEW v2 (one, two) AS SELECT v1.a, v1.bee FROM v1 WHERE a > 5;
