"""Values of regclass and its like, which are written as names: in COPY, in arrays and rows, in columns that are added;
and comments on columns of all that has columns. psql shows of our server what it shows of PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.clients.test_psql import psql
from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer

SCRIPT = r"""
CREATE SCHEMA named; SET search_path = named;
CREATE TABLE t (a regclass[], b regtype, c regproc, d regprocedure, e regrole, f regnamespace, h regoperator);
COPY t FROM STDIN;
{pg_class,NULL,1247,named.t}	numeric(5,2)	sum	pg_catalog.upper(text)	postgres	named	+(integer,integer)
\.
COPY t FROM STDIN;
{pg_class,NULL,1247,named.t}	numeric(5,2)	now	pg_catalog.upper(text)	postgres	named	+(integer,integer)
\N	-	-	0	\N	0	0
\.
COPY t (b, a) FROM STDIN (FORMAT csv, HEADER);
b,a
text,"{named.t,""pg_type""}"
\.
COPY t TO STDOUT;
COPY t (a) FROM STDIN (FORMAT csv);
"{absent}"
\.
COPY t (b) FROM STDIN;
integer
absent
\.
COPY t (e) FROM STDIN;
absent
\.
INSERT INTO t (a) VALUES ('{pg_class,pg_type}') RETURNING a;
SELECT '{pg_class,absent}'::regclass[];
CREATE TYPE pair AS (relation regclass, n int);
SELECT ('("pg_type",1)'::pair).relation, ('{"(named.t,2)"}'::pair[])[1].relation;
CREATE TABLE pairs (p pair);
COPY pairs FROM STDIN;
(named.t,1)
\.
SELECT (p).relation, (p).n FROM pairs;
DROP TABLE pairs;
CREATE TABLE added (i int); INSERT INTO added VALUES (1);
ALTER TABLE added ADD c regclass DEFAULT 'pg_class', ADD a regclass[] DEFAULT '{pg_type}', ADD t regtype DEFAULT 'int';
INSERT INTO added (i) VALUES (2);
SELECT * FROM added ORDER BY i;
SELECT i FROM added WHERE c = 'pg_class'::regclass ORDER BY i;
CREATE SEQUENCE numbers; CREATE INDEX by_i ON added (i);
COMMENT ON COLUMN pair.relation IS 'what is meant';
\d+ pair
COMMENT ON COLUMN named.pair.absent IS 'x';
COMMENT ON COLUMN numbers.last_value IS 'x';
COMMENT ON COLUMN by_i.i IS 'x';
COMMENT ON COLUMN absent.i IS 'x';
ALTER TYPE pair RENAME ATTRIBUTE relation TO other;
SELECT col_description('pair'::regclass, 1);
COMMENT ON COLUMN pair.other IS NULL;
SELECT col_description('pair'::regclass, 1);
"""


def test_names_of_objects(server: TidegateServer, postgres: PostgresServer) -> None:
    """Also the errors for what does not exist, with their context."""
    found = []
    for target in (server, postgres):
        try:
            found.append(psql(target, SCRIPT))
        finally:
            psql(target, "DROP SCHEMA named CASCADE")
    assert found[0] == found[1]
    assert "what is meant" in found[0]
    assert "XX000" not in found[0]


def test_names_in_parameters_are_refused_by_name(server: TidegateServer) -> None:
    """Inside arrays, as parameters in text format; numbers are taken."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        shown = connection.execute("SELECT (%s::regclass[])[1]::text", ("{1259}",)).fetchone()
        assert shown == ("pg_class",)
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="regclass values that are names"):
            connection.execute("SELECT %s::regclass[]", ("{pg_class}",))
        assert connection.execute("SELECT 1").fetchone() == (1,)
