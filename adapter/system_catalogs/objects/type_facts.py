"""Lengths, precisions and radixes of types as information_schema shows them."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from planner.catalog_data import content as catalog_data
from planner.types.types import (
    BIT,
    BPCHAR,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    TIMETZ,
    VARBIT,
    VARCHAR,
    numeric_precision_scale,
)

MAX_OCTETS = 1 << 30
_INTEGER_BITS = {INT2: 16, INT4: 32, INT8: 64, FLOAT4: 24, FLOAT8: 53}


class TypeFacts(Struct, frozen=True, kw_only=True):
    """The columns of information_schema.columns that follow data_type; None is NULL. `collation` is an oid."""

    character_maximum_length: int | None = None
    character_octet_length: int | None = None
    numeric_precision: int | None = None
    numeric_precision_radix: int | None = None
    numeric_scale: int | None = None
    datetime_precision: int | None = None
    interval_type: str | None = None
    collation: int = 0


@lru_cache(maxsize=1024)
def type_facts(oid: int, typmod: int) -> TypeFacts:
    """What information_schema says of a type (not a domain) with this type modifier."""
    row = catalog_data.types().get(oid)
    collation = 0 if row is None else row.collation
    if oid in _INTEGER_BITS:
        scale = None if oid in (FLOAT4, FLOAT8) else 0
        return TypeFacts(numeric_precision=_INTEGER_BITS[oid], numeric_precision_radix=2, numeric_scale=scale)
    if oid == NUMERIC:
        declared = numeric_precision_scale(typmod)
        precision, scale = declared if declared is not None else (None, None)
        return TypeFacts(numeric_precision=precision, numeric_precision_radix=10, numeric_scale=scale)
    if oid in (VARCHAR, BPCHAR):
        length = typmod - 4 if typmod >= 4 else None
        octets = MAX_OCTETS if length is None else 4 * length
        return TypeFacts(character_maximum_length=length, character_octet_length=octets, collation=collation)
    if oid == TEXT:
        return TypeFacts(character_octet_length=MAX_OCTETS, collation=collation)
    if oid in (BIT, VARBIT):
        return TypeFacts(character_maximum_length=typmod if typmod >= 0 else None)
    if oid == DATE:
        return TypeFacts(datetime_precision=0)
    if oid in (TIME, TIMETZ, TIMESTAMP, TIMESTAMPTZ):
        return TypeFacts(datetime_precision=typmod if typmod >= 0 else 6)
    if oid == INTERVAL:
        precision = 6 if typmod < 0 or typmod & 0xFFFF == 0xFFFF else typmod & 0xFFFF
        return TypeFacts(datetime_precision=precision)
    return TypeFacts(collation=collation)
