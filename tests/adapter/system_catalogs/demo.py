"""A small catalog for the tests of the system relations: the same objects as `DDL` makes in PostgreSQL."""

from __future__ import annotations

from storage.catalog.access import Role
from storage.catalog.model import (
    CatalogRecord,
    CatalogSnapshot,
    CatalogUpdate,
    Column,
    Comment,
    Constraint,
    Relation,
    Schema,
    Sequence,
)
from storage.catalog.standard_objects import bootstrap_updates
from storage.timestamps.csn import Csn

DDL = """
CREATE ROLE app LOGIN;
CREATE SCHEMA sales;
CREATE TABLE customer(
    id int NOT NULL, name varchar(80) NOT NULL, email text, created timestamptz DEFAULT now(),
    balance numeric(12,2) DEFAULT 0, tags text[], doc jsonb, u uuid, b bytea, active boolean DEFAULT true,
    CONSTRAINT customer_pkey PRIMARY KEY (id), CONSTRAINT customer_email_key UNIQUE (email),
    CONSTRAINT customer_balance_check CHECK (balance >= 0));
COMMENT ON TABLE customer IS 'customers';
COMMENT ON COLUMN customer.name IS 'full name';
CREATE TABLE sales.orders(
    id bigint NOT NULL, customer_id int NOT NULL, odate date, price numeric, note char(10), iv interval(3), t time,
    d double precision, r real, s smallint, ts timestamp(3),
    CONSTRAINT orders_pkey PRIMARY KEY (id),
    CONSTRAINT orders_customer_fkey FOREIGN KEY (customer_id) REFERENCES customer(id));
CREATE TABLE "Weird Table"("Col A" int, "select" text);
CREATE VIEW names AS SELECT customer.name FROM customer;
CREATE SEQUENCE seq1 START 5;
"""

CUSTOMER, ORDERS, WEIRD, NAMES, SEQUENCE = 16400, 16410, 16420, 16430, 16440
APP, SALES = 16390, 16391
PUBLIC = 2200


def _column(attnum: int, name: str, type_oid: int, typmod: int = -1, **rest: object) -> Column:
    return Column(attnum=attnum, name=name, type_oid=type_oid, typmod=typmod, **rest)  # type: ignore[arg-type]


def records() -> tuple[CatalogRecord, ...]:
    """The records of the objects in `DDL`."""
    return (
        Role(oid=APP, name="app"),
        Schema(oid=SALES, name="sales", owner=10),
        Relation(
            oid=CUSTOMER,
            name="customer",
            schema=PUBLIC,
            owner=10,
            kind="r",
            columns=(
                _column(1, "id", 23, not_null=True),
                _column(2, "name", 1043, 84, not_null=True),
                _column(3, "email", 25),
                _column(4, "created", 1184, default="now()"),
                _column(5, "balance", 1700, 786438, default="0"),
                _column(6, "tags", 1009),
                _column(7, "doc", 3802),
                _column(8, "u", 2950),
                _column(9, "b", 17),
                _column(10, "active", 16, default="true"),
            ),
        ),
        Constraint(oid=16401, name="customer_pkey", relation=CUSTOMER, kind="p", columns=(1,)),
        Constraint(oid=16402, name="customer_email_key", relation=CUSTOMER, kind="u", columns=(3,)),
        Constraint(
            oid=16403,
            name="customer_balance_check",
            relation=CUSTOMER,
            kind="c",
            columns=(5,),
            expression="(balance >= (0)::numeric)",
        ),
        Comment(oid=16404, object_oid=CUSTOMER, text="customers"),
        Comment(oid=16405, object_oid=CUSTOMER, subid=2, text="full name"),
        Relation(
            oid=ORDERS,
            name="orders",
            schema=SALES,
            owner=10,
            kind="r",
            columns=(
                _column(1, "id", 20, not_null=True),
                _column(2, "customer_id", 23, not_null=True),
                _column(3, "odate", 1082),
                _column(4, "price", 1700),
                _column(5, "note", 1042, 14),
                _column(6, "iv", 1186, 2147418115),
                _column(7, "t", 1083),
                _column(8, "d", 701),
                _column(9, "r", 700),
                _column(10, "s", 21),
                _column(11, "ts", 1114, 3),
            ),
        ),
        Constraint(oid=16411, name="orders_pkey", relation=ORDERS, kind="p", columns=(1,)),
        Constraint(
            oid=16412,
            name="orders_customer_fkey",
            relation=ORDERS,
            kind="f",
            columns=(2,),
            foreign_relation=CUSTOMER,
            foreign_columns=(1,),
        ),
        Relation(
            oid=WEIRD,
            name="Weird Table",
            schema=PUBLIC,
            owner=10,
            kind="r",
            columns=(_column(1, "Col A", 23), _column(2, "select", 25)),
        ),
        Relation(
            oid=NAMES,
            name="names",
            schema=PUBLIC,
            owner=10,
            kind="v",
            columns=(_column(1, "name", 1043, 84),),
            definition="SELECT customer.name\n   FROM public.customer",
            depends_on=(CUSTOMER,),
        ),
        Sequence(oid=SEQUENCE, name="seq1", schema=PUBLIC, owner=10, start=5),
    )


def demo_catalog() -> CatalogSnapshot:
    """The catalog with the objects of `DDL`."""
    empty = CatalogSnapshot.empty().apply(bootstrap_updates(), Csn(1))
    return empty.apply([CatalogUpdate(record=record, diff=1) for record in records()], Csn(2))
