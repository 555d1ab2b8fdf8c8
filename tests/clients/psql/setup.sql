-- The objects that the backslash commands are asked about. psql runs this on either server before anything else.
CREATE ROLE clerk LOGIN CONNECTION LIMIT 5 VALID UNTIL '2030-01-01 00:00+00';
CREATE ROLE auditors NOLOGIN NOINHERIT;
CREATE ROLE chief CREATEDB CREATEROLE LOGIN BYPASSRLS IN ROLE auditors;
GRANT clerk TO chief WITH ADMIN OPTION;
COMMENT ON ROLE clerk IS 'writes orders';
ALTER ROLE clerk SET search_path = shop, public;
ALTER ROLE clerk IN DATABASE :"DBNAME" SET work_mem = '8MB';
ALTER ROLE chief SET statement_timeout = '1min';

CREATE SCHEMA shop;
COMMENT ON SCHEMA shop IS 'what is sold';
GRANT USAGE ON SCHEMA shop TO clerk, auditors;
GRANT CREATE ON SCHEMA shop TO chief WITH GRANT OPTION;
CREATE SCHEMA "Odd Names" AUTHORIZATION chief;
SET search_path = shop, public;

CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s fine');
COMMENT ON TYPE mood IS 'how they feel';
CREATE TYPE address AS (street text, zip varchar(10), "Floor" smallint);
CREATE TYPE "Odd Names".span AS RANGE (subtype = date, multirange_type_name = spans);
CREATE DOMAIN amount AS numeric(12, 2) DEFAULT 0 NOT NULL CONSTRAINT not_negative CHECK (VALUE >= 0);
COMMENT ON DOMAIN amount IS 'of money';
CREATE DOMAIN code AS varchar(8) CHECK (VALUE ~ '^[A-Z]+$') CHECK (length(VALUE) > 1);
REVOKE USAGE ON TYPE mood FROM PUBLIC;
GRANT USAGE ON TYPE mood TO clerk;

CREATE SEQUENCE ticket AS smallint START 10 INCREMENT 5 MINVALUE 5 MAXVALUE 100 CYCLE CACHE 3;
CREATE SEQUENCE counter;
COMMENT ON SEQUENCE ticket IS 'numbers of tickets';

CREATE TABLE customer (
    id integer GENERATED ALWAYS AS IDENTITY (START 100) PRIMARY KEY,
    name varchar(40) NOT NULL,
    email text UNIQUE,
    feels mood DEFAULT 'ok',
    home address,
    credit amount,
    tags text[] DEFAULT '{}',
    born date,
    shout text GENERATED ALWAYS AS (upper(email)) STORED,
    seen timestamp(3) with time zone DEFAULT now(),
    CONSTRAINT customer_name_check CHECK (name <> ''),
    CONSTRAINT born_late CHECK (born > '1900-01-01')
);
COMMENT ON TABLE customer IS 'who buys';
COMMENT ON COLUMN customer.name IS 'as on the card';
COMMENT ON CONSTRAINT born_late ON customer IS 'nobody is older';
CREATE INDEX customer_name_idx ON customer (lower(name), born DESC NULLS LAST);
CREATE INDEX customer_hash_idx ON customer USING hash (email);
CREATE UNIQUE INDEX customer_partial_idx ON customer (born) INCLUDE (name) WHERE credit > 5;
COMMENT ON INDEX customer_name_idx IS 'for the search box';

CREATE TABLE orders (
    id bigserial,
    customer integer REFERENCES customer ON DELETE CASCADE ON UPDATE SET NULL,
    item code,
    placed timestamptz DEFAULT CURRENT_TIMESTAMP,
    total numeric(10, 2) CHECK (total > 0),
    during "Odd Names".span,
    parent bigint,
    note text,
    PRIMARY KEY (id),
    CONSTRAINT orders_parent_fkey FOREIGN KEY (parent) REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED,
    UNIQUE (customer, item) DEFERRABLE
);
ALTER TABLE orders ADD CONSTRAINT later CHECK (total < 1000) NOT VALID;
ALTER TABLE orders REPLICA IDENTITY FULL;
ALTER TABLE customer REPLICA IDENTITY USING INDEX customer_pkey;
ALTER TABLE orders CLUSTER ON orders_pkey;

CREATE TABLE "Odd Names"."A Table" ("a Column" integer, "UPPER" text, "quo""te" boolean);
CREATE UNLOGGED TABLE "Odd Names".kept (k integer);
CREATE TABLE "Odd Names".ordered (note text COLLATE "C");
CREATE TABLE nothing_in_it ();
CREATE TABLE scratch (k integer, v text) WITH (fillfactor = 70);
CREATE TABLE booking (room integer, during tsrange, EXCLUDE USING gist (during WITH &&));

CREATE VIEW rich AS SELECT id, name FROM customer WHERE born > '1990-01-01'::date;
COMMENT ON VIEW rich IS 'good customers';
CREATE VIEW guarded WITH (security_barrier) AS SELECT c.id, c.name FROM customer c WHERE c.id < 1000 WITH CASCADED CHECK OPTION;
CREATE RECURSIVE VIEW "Odd Names".counted (n) AS VALUES (1) UNION ALL SELECT n + 1 FROM counted WHERE n < 5;
CREATE VIEW "Odd Names".converted AS SELECT id FROM customer WHERE credit > 100;
CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(total) AS total FROM orders GROUP BY customer;
CREATE UNIQUE INDEX totals_idx ON totals (customer);
COMMENT ON MATERIALIZED VIEW totals IS 'kept';

CREATE FUNCTION plus(a integer, b integer DEFAULT 1) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT a + b';
COMMENT ON FUNCTION plus IS 'adds';
CREATE FUNCTION pairs(OUT a integer, OUT b text) RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER AS $$SELECT 1, 'one'$$;
CREATE FUNCTION tabled(n integer) RETURNS TABLE (x integer, y text) LANGUAGE sql AS $$
    SELECT g, g::text
    FROM generate_series(1, n) AS g
$$;
CREATE FUNCTION standard(a text, VARIADIC rest text[]) RETURNS text LANGUAGE sql RETURN a;
CREATE PROCEDURE note_it(t text) LANGUAGE sql AS $$INSERT INTO scratch VALUES (1, t)$$;
REVOKE EXECUTE ON FUNCTION plus FROM PUBLIC;
GRANT EXECUTE ON FUNCTION plus TO clerk;

CREATE POLICY own ON orders AS PERMISSIVE FOR SELECT TO clerk USING (total < 500);
CREATE POLICY checks ON orders AS RESTRICTIVE TO auditors, chief USING (true) WITH CHECK (item <> 'NONE');
ALTER TABLE orders ENABLE ROW LEVEL SECURITY;

GRANT SELECT, INSERT ON customer TO clerk WITH GRANT OPTION;
GRANT UPDATE (name, email), SELECT (id) ON customer TO auditors;
GRANT SELECT ON rich TO PUBLIC;
GRANT USAGE ON SEQUENCE ticket TO clerk;
GRANT ALL ON orders TO chief;
ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT SELECT ON TABLES TO auditors;
ALTER DEFAULT PRIVILEGES FOR ROLE chief REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO clerk;

INSERT INTO customer (name, email, credit, tags, born) VALUES ('Ada', 'ada@example.org', 12.5, '{a,"b c"}', '1990-05-06'), ('Bo', NULL, 0, NULL, NULL);
INSERT INTO orders (customer, item, placed, total) VALUES (100, 'TEA', '2024-05-01 10:00+00', 5.25), (100, 'MILK', '2024-05-02 11:30+00', 1.10), (101, 'TEA', NULL, 3);
UPDATE customer SET seen = '2024-05-06 07:08:09.123+00';
REFRESH MATERIALIZED VIEW totals;
