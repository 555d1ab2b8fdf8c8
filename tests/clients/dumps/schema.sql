CREATE ROLE dump_owner NOLOGIN;
CREATE ROLE dump_reader LOGIN CONNECTION LIMIT 7 VALID UNTIL '2031-01-01 00:00:00+00';
CREATE ROLE dump_admin CREATEROLE CREATEDB NOINHERIT BYPASSRLS;
GRANT dump_owner TO dump_admin WITH ADMIN OPTION;
GRANT pg_read_all_data TO dump_reader;
COMMENT ON ROLE dump_reader IS 'reads';
ALTER ROLE dump_reader SET search_path = r, public;
ALTER ROLE dump_reader SET statement_timeout = '5min';
CREATE EXTENSION pgcrypto;
CREATE EXTENSION "uuid-ossp";
CREATE EXTENSION pg_trgm;
CREATE EXTENSION btree_gin;
CREATE EXTENSION fuzzystrmatch;
CREATE SCHEMA r AUTHORIZATION dump_owner;
CREATE SCHEMA "odd Schema";
COMMENT ON SCHEMA r IS 'rich';
GRANT USAGE ON SCHEMA r TO dump_reader;
GRANT CREATE, USAGE ON SCHEMA "odd Schema" TO PUBLIC;
SET search_path = r, public;
CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'happy');
ALTER TYPE mood ADD VALUE 'meh' BEFORE 'happy';
CREATE TYPE point2 AS (x double precision, y numeric(8,3), label varchar(10));
CREATE DOMAIN positive AS integer DEFAULT 1 NOT NULL CONSTRAINT is_positive CHECK (VALUE > 0);
CREATE DOMAIN small_positive AS positive CHECK (VALUE < 100) ;
CREATE DOMAIN email AS text CHECK (VALUE ~ '^[^@]+@[^@]+$');
CREATE DOMAIN words AS text[];
ALTER DOMAIN email ADD CONSTRAINT short CHECK (length(VALUE) < 60) NOT VALID;
COMMENT ON DOMAIN email IS 'an address';
COMMENT ON CONSTRAINT short ON DOMAIN email IS 'not too long';
COMMENT ON TYPE mood IS 'how one feels';
COMMENT ON COLUMN point2.x IS 'abscissa';
GRANT USAGE ON TYPE mood TO dump_reader;
REVOKE USAGE ON DOMAIN email FROM PUBLIC;
CREATE SEQUENCE seq1 AS smallint START 5 INCREMENT -2 MINVALUE -100 MAXVALUE 50 CACHE 1 CYCLE;
CREATE SEQUENCE seq2;
SELECT nextval('seq1'), nextval('seq1'); SELECT setval('seq2', 42, false);
COMMENT ON SEQUENCE seq1 IS 'backwards';
GRANT USAGE, SELECT ON SEQUENCE seq2 TO dump_reader WITH GRANT OPTION;
CREATE FUNCTION twice(n integer) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 5 AS $$ SELECT n * 2 $$;
CREATE FUNCTION greet(who text DEFAULT 'you', OUT said text, OUT size integer) LANGUAGE sql STABLE AS 'SELECT ''hi '' || who, length(who)';
CREATE FUNCTION body(a integer, b integer = 3) RETURNS integer LANGUAGE sql RETURN a + b;
CREATE FUNCTION total(VARIADIC n numeric[]) RETURNS numeric LANGUAGE sql AS $$ SELECT sum(x) FROM unnest(n) x $$;
CREATE TABLE kinds (
    i2 smallint, i4 integer, i8 bigint, n numeric, n52 numeric(5,2), f4 real, f8 double precision, b boolean,
    t text, v varchar(5), v0 varchar, c char(3), c1 char, "q c" "char", nm name, by bytea,
    d date, ti time, ti3 time(3), tz timetz, ts timestamp, ts2 timestamp(2), tsz timestamptz(0), iv interval, iv2 interval day to second(3),
    u uuid, j json, jb jsonb, ip inet, ci cidr, mac macaddr, mac8 macaddr8, bi bit(5), vb varbit(7), mo money, o oid,
    r4 int4range, rn numrange, rts tstzrange, rd daterange, mr int4multirange, rc regclass, rt regtype,
    ia integer[], ta text[], ma integer[][], ea mood[], e mood, p point2, pa point2[], em email, w words, po small_positive,
    lsn pg_lsn, x8 xid8
);
INSERT INTO kinds VALUES (1, -2, 9223372036854775807, 'NaN', 1.10, 1.5, 'Infinity', true, E'a\tb\\c\n', 'vü', '', 'c', 'x', 'q', 'nm', '\x00ff',
 '2024-02-29', '01:02:03.456789', '01:02:03.4567', '01:02:03+05:30', '2024-01-01 00:00:00.123456', '2024-01-01 00:00:00.129', '2024-01-01 00:00:00.6+02', '1 year 2 mons -3 days 04:05:06.7', '1 day 00:00:01.2345',
 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a" : 1}', '{"b": [1, 2.50]}', '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '10101', '101', '$1,234.50', 42,
 '[1,5)', '(,1.50]', '["2024-01-01 00:00:00+00",)', 'empty', '{[1,3),[5,7)}', 'pg_class', 'integer',
 '{1,NULL,3}', '{a,"b c",NULL,"NULL","q\"x"}', '{1,2}', '{sad,"it''s ok"}', 'meh', '(1.5,2.125,"a,b")', '{"(1,2,x)",NULL}', 'a@b', '{x,y}', 7, '16/B374D848', '77');
INSERT INTO kinds (i2, po) VALUES (NULL, 99);
CREATE TABLE parent (
    id integer GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5 MINVALUE 1 MAXVALUE 1000 CACHE 1),
    code varchar(10) NOT NULL,
    serial_one serial, big_one bigserial, small_one smallserial,
    price numeric(10,2) DEFAULT 9.99 CONSTRAINT price_ok CHECK (price > 0 AND price < 10000::numeric),
    twice_price numeric GENERATED ALWAYS AS (price * 2) STORED,
    made timestamptz DEFAULT now() NOT NULL, who text DEFAULT CURRENT_USER,
    day date DEFAULT CURRENT_DATE, key uuid DEFAULT gen_random_uuid(), old_key uuid DEFAULT uuid_generate_v4(),
    num integer DEFAULT nextval('seq2'), doubled integer DEFAULT twice(3),
    code2 varchar(10) UNIQUE, arr text[] DEFAULT ARRAY['a'::text, 'b'] , m mood DEFAULT 'sad', p point2,
    CONSTRAINT parent_pk PRIMARY KEY (id), CONSTRAINT parent_code_key UNIQUE (code) DEFERRABLE INITIALLY DEFERRED,
    UNIQUE NULLS NOT DISTINCT (serial_one, day), CONSTRAINT no_inherit CHECK (num > 0) NO INHERIT,
    CONSTRAINT "Odd ""Name""" CHECK (code <> 'x' OR (made IS NOT NULL AND code LIKE 'a%'))
) WITH (fillfactor=90);
ALTER TABLE parent ADD CONSTRAINT later CHECK (length(code) > 0) NOT VALID;
INSERT INTO parent (code, price, made, who, day, key, old_key) VALUES ('a1', 1.50, '2024-01-01', 'me', '2024-01-01', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', NULL), ('b2', 2, '2024-01-02', 'you', '2024-01-02', NULL, NULL);
CREATE TABLE child (
    a integer, b integer, parent_id integer REFERENCES parent (id) ON DELETE SET NULL ON UPDATE CASCADE,
    code varchar(10), during tstzrange, room integer, self integer,
    PRIMARY KEY (a, b) INCLUDE (room),
    CONSTRAINT no_overlap EXCLUDE USING gist (during WITH &&)
);
ALTER TABLE child ADD CONSTRAINT by_code FOREIGN KEY (code) REFERENCES parent (code2) MATCH FULL ON DELETE RESTRICT NOT VALID;
ALTER TABLE child ADD CONSTRAINT del_cols FOREIGN KEY (parent_id) REFERENCES parent ON DELETE SET DEFAULT (parent_id) DEFERRABLE;
INSERT INTO child VALUES (1, 1, 10, NULL, '[2024-01-01 00:00:00+00,2024-01-02 00:00:00+00)', 1, NULL), (1, 2, NULL, NULL, NULL, 2, 1);
CREATE TABLE fast (x integer);
CREATE TABLE "odd Schema"."Odd ""Table""" ("select" integer PRIMARY KEY, "Ümläut" text DEFAULT 'ü''\');
INSERT INTO "odd Schema"."Odd ""Table""" VALUES (1, '\.'), (2, NULL), (3, '\N');
CREATE INDEX parent_expr ON parent (lower(code) text_pattern_ops DESC NULLS LAST, ((price + 1))) WHERE price > 3;
CREATE UNIQUE INDEX parent_cov ON parent (big_one) INCLUDE (code, price);
CREATE UNIQUE INDEX nnd ON parent (code2, id) NULLS NOT DISTINCT;
CREATE INDEX child_hash ON child USING hash (room);
CREATE INDEX ff ON child (self) WITH (fillfactor=70);
COMMENT ON INDEX parent_cov IS 'covers';
CREATE TABLE found (words text[], facts jsonb, at tsrange, place point, host inet, title text, n int, day date);
CREATE INDEX found_gin ON found USING gin (words, facts jsonb_path_ops, n) WITH (fastupdate=off);
CREATE INDEX found_title ON found USING gin (lower(title) gin_trgm_ops) WHERE n > 3;
CREATE INDEX found_gist ON found USING gist (title gist_trgm_ops (siglen=32), at, place) INCLUDE (n);
CREATE INDEX found_spgist ON found USING spgist (host) WITH (fillfactor=80);
CREATE INDEX found_brin ON found USING brin (day date_minmax_multi_ops (values_per_range=16), n) WITH (pages_per_range=16);
COMMENT ON INDEX found_gin IS 'words and facts';
ALTER TABLE found CLUSTER ON found_gist;
ALTER TABLE child REPLICA IDENTITY FULL;
ALTER TABLE parent CLUSTER ON parent_pk;
CREATE VIEW v1 AS SELECT p.id, p.code, c.room, twice(p.id) AS tw, CASE WHEN p.price > 1 THEN 'dear' ELSE 'cheap' END AS how,
   p.arr[1] AS first, (p.p).x AS px, row_number() OVER (PARTITION BY c.room ORDER BY p.id DESC) AS rn
   FROM parent p LEFT JOIN child c ON c.parent_id = p.id WHERE p.code LIKE 'a%' OR EXISTS (SELECT 1 FROM kinds k WHERE k.i4 = p.id);
CREATE VIEW v2 WITH (security_barrier=true) AS SELECT id, code FROM parent WHERE price > 0 WITH LOCAL CHECK OPTION;
CREATE VIEW v3 (one, two) AS WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT n, count(*) FILTER (WHERE n > 1) FROM t GROUP BY n HAVING count(*) > 0 ORDER BY n LIMIT 3;
CREATE VIEW v4 WITH (security_invoker=true) AS SELECT * FROM v1 UNION SELECT id, code, 1, 2, 'x', 'y', 1.5, 3 FROM v2;
CREATE RECURSIVE VIEW nums (n) AS VALUES (1) UNION ALL SELECT n+1 FROM nums WHERE n < 3;
ALTER VIEW v2 ALTER COLUMN code SET DEFAULT 'zz';
COMMENT ON VIEW v1 IS 'joined'; COMMENT ON COLUMN v1.tw IS 'two times';
CREATE MATERIALIZED VIEW mv AS SELECT code, sum(price) AS total FROM parent GROUP BY code;
CREATE MATERIALIZED VIEW mv_empty AS SELECT * FROM mv WITH NO DATA;
CREATE UNIQUE INDEX mv_code ON mv (code);
COMMENT ON MATERIALIZED VIEW mv IS 'summed';
CREATE FUNCTION rows_of(min numeric) RETURNS SETOF parent LANGUAGE sql STABLE ROWS 10 AS $$ SELECT * FROM r.parent WHERE price >= min $$;
CREATE FUNCTION tab(n integer) RETURNS TABLE (a integer, b text) LANGUAGE sql SECURITY DEFINER SET search_path = r AS $$ SELECT n, 'x' $$;
CREATE PROCEDURE add_parent(c text) LANGUAGE sql AS $$ INSERT INTO r.parent (code) VALUES (c) $$;
COMMENT ON FUNCTION twice(integer) IS 'doubles'; COMMENT ON PROCEDURE add_parent(text) IS 'adds';
REVOKE EXECUTE ON FUNCTION twice(integer) FROM PUBLIC; GRANT EXECUTE ON FUNCTION twice(integer) TO dump_reader;
ALTER TABLE parent ENABLE ROW LEVEL SECURITY; ALTER TABLE child ENABLE ROW LEVEL SECURITY; ALTER TABLE child FORCE ROW LEVEL SECURITY;
CREATE POLICY p_all ON parent USING (true);
CREATE POLICY p_own ON child AS RESTRICTIVE FOR UPDATE TO dump_reader, dump_owner USING (room > 0) WITH CHECK (room < 10);
CREATE POLICY p_ins ON child FOR INSERT WITH CHECK (a > 0);
COMMENT ON POLICY p_own ON child IS 'rooms';
GRANT SELECT, INSERT ON parent TO dump_reader; GRANT ALL ON child TO dump_admin WITH GRANT OPTION; GRANT SELECT (a, b), UPDATE (room) ON child TO dump_reader;
GRANT SELECT ON v1, mv TO PUBLIC; REVOKE DELETE ON parent FROM postgres;
ALTER TABLE child OWNER TO dump_owner; ALTER VIEW v2 OWNER TO dump_owner; ALTER TYPE mood OWNER TO dump_owner; ALTER FUNCTION greet OWNER TO dump_owner;
ALTER DEFAULT PRIVILEGES IN SCHEMA r GRANT SELECT ON TABLES TO dump_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE dump_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE dump_owner IN SCHEMA r GRANT USAGE ON SEQUENCES TO dump_reader WITH GRANT OPTION;
COMMENT ON TABLE parent IS 'It''s a parent'; COMMENT ON COLUMN parent.code IS 'the code'; COMMENT ON CONSTRAINT price_ok ON parent IS 'ok'; COMMENT ON EXTENSION pgcrypto IS 'ours';
COMMENT ON COLUMN kinds."q c" IS 'odd';
CREATE TABLE like_it (LIKE parent INCLUDING ALL);
ALTER TABLE like_it DROP COLUMN arr;
SELECT lo_from_bytea(860001, 'of the owner'), lo_from_bytea(860002, ''), lo_from_bytea(860003, convert_to(repeat('0123456789', 50000), 'UTF8'));
SELECT lo_put(860002, 9000, 'far');
ALTER LARGE OBJECT 860001 OWNER TO dump_owner; COMMENT ON LARGE OBJECT 860001 IS 'a large one'; GRANT SELECT ON LARGE OBJECT 860001 TO dump_reader; GRANT ALL ON LARGE OBJECT 860003 TO PUBLIC;
