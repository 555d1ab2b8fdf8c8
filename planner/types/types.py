"""PostgreSQL's data types as the planner sees them.

A `SqlType` is an OID, a type modifier and, for numeric, the fixed-point shape in which the engines hold it.
Equality is structural. The built-in types' OIDs are PostgreSQL's own, so they can go onto the wire unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from planner.catalog_data.content import types
from planner.common_errors import Held
from planner.types.derived_oids import (
    FIRST_USER_TYPE,
    array_type_oid,
    owner_of_array_type,
    owner_of_row_type,
    row_type_oid,
)
from planner.types.type_scope import TYPE_SCOPE, domain_of
from storage.catalog.model import Column

BOOL = 16
BYTEA = 17
CHAR = 18
NAME = 19
INT8 = 20
INT2 = 21
INT2VECTOR = 22
INT4 = 23
REGPROC = 24
TEXT = 25
OID = 26
TID = 27
XID = 28
CID = 29
OIDVECTOR = 30
JSON = 114
XML = 142
PG_NODE_TREE = 194
POINT = 600
LSEG = 601
PATH = 602
BOX = 603
POLYGON = 604
LINE = 628
FLOAT4 = 700
FLOAT8 = 701
UNKNOWN = 705
CIRCLE = 718
INET = 869
ACLITEM = 1033
BPCHAR = 1042
VARCHAR = 1043
DATE = 1082
TIME = 1083
TIMESTAMP = 1114
TIMESTAMPTZ = 1184
INTERVAL = 1186
TIMETZ = 1266
BIT = 1560
VARBIT = 1562
NUMERIC = 1700
CIDR = 650
MACADDR8 = 774
MACADDR = 829
REFCURSOR = 1790
REGPROCEDURE = 2202
REGOPER = 2203
REGOPERATOR = 2204
REGCLASS = 2205
REGTYPE = 2206
RECORD = 2249
RECORD_ARRAY = 2287
CSTRING = 2275
ANYARRAY = 2277
VOID = 2278
ANYELEMENT = 2283
UUID = 2950
JSONB = 3802
JSONPATH = 4072
MONEY = 790
PG_LSN = 3220
TXID_SNAPSHOT = 2970
PG_SNAPSHOT = 5038
XID8 = 5069
TSVECTOR = 3614
TSQUERY = 3615
GTSVECTOR = 3642
REGNAMESPACE = 4089
REGROLE = 4096

MAX_DECIMAL_PRECISION = 38

REGCONFIG = 3734
REGDICTIONARY = 3769
REGCOLLATION = 4191

REG_TYPES: Mapping[int, str] = {
    REGPROC: "regproc", REGPROCEDURE: "regprocedure", REGOPER: "regoper", REGOPERATOR: "regoperator",
    REGCLASS: "regclass", REGTYPE: "regtype", REGNAMESPACE: "regnamespace", REGROLE: "regrole",
    REGCONFIG: "regconfig", REGDICTIONARY: "regdictionary", REGCOLLATION: "regcollation",
}  # fmt: skip
"""The alias types of oid (PostgreSQL 15, 8.19), by oid. Engines have tg_<name>_in and tg_<name>_out for each."""


class NumericShape(Struct, frozen=True):
    """How a numeric is held: as DECIMAL(precision, scale) where PostgreSQL's display scale of every value is exactly
    `scale`, else as `WIDE`."""

    precision: int
    scale: int
    exact_scale: bool = True


WIDE = NumericShape(MAX_DECIMAL_PRECISION + 1, 0, exact_scale=False)
"""Any value of PostgreSQL's numeric, NaN and the infinities among them, held as the text that PostgreSQL shows: it has
the value and the display scale. Columns without declared precision, and results whose scale depends on the values."""


class SqlType(Struct, frozen=True):
    """A type as a column or an expression has it. `typmod` is PostgreSQL's atttypmod, -1 when there is none.

    `shape` is set for numeric (and for arrays of numeric, of the element) and for nothing else. `domain` is the oid of
    the domain, or of the array over one, that a value is of, 0 for neither: the rest says what is under it.
    `dimensioned` is set for arrays that may have any number of dimensions and any lower bounds, held beside their
    elements (`planner.ir.array_value`); all others are lists whose first element is number 1.
    """

    oid: int
    typmod: int = -1
    shape: NumericShape | None = None
    domain: int = 0
    dimensioned: bool = False

    @property
    def declared_oid(self) -> int:
        """The oid of the type by its name: the domain's, where there is one."""
        return self.domain or self.oid

    @property
    def declared_typmod(self) -> int:
        """The modifier that goes with `declared_oid`: domains have theirs themselves."""
        return -1 if self.domain else self.typmod

    def without_domain(self) -> SqlType:
        """The type under the domain."""
        return replace(self, domain=0) if self.domain else self

    def without_typmod(self) -> SqlType:
        """The same type without its modifier."""
        return replace(self, typmod=-1)


def is_wide(type: SqlType) -> bool:
    """Whether values of `type` are numerics that are held as text."""
    return type.oid == NUMERIC and (type.shape is None or not type.shape.exact_scale)


def numeric_typmod(precision: int, scale: int) -> int:
    """atttypmod of numeric(precision, scale): PostgreSQL packs both above a 4-byte header."""
    return ((precision << 16) | (scale & 0x7FF)) + 4


def numeric_precision_scale(typmod: int) -> tuple[int, int] | None:
    """(precision, scale) of a numeric type modifier, or None when there is none (-1)."""
    if typmod < 4:
        return None
    packed = typmod - 4
    scale = packed & 0x7FF
    return (packed >> 16) & 0xFFFF, scale - 0x800 if scale >= 0x400 else scale


def numeric_type(precision: int, scale: int, *, exact_scale: bool = True) -> SqlType:
    """An expression's numeric type: no type modifier, held as DECIMAL(precision, scale)."""
    return SqlType(NUMERIC, -1, NumericShape(precision, scale, exact_scale))


def column_type(oid: int, typmod: int = -1, *, dimensioned: bool = False) -> SqlType:
    """The type of a stored column: like `SqlType`, with the shape that numeric columns are stored in, and what is under
    a domain."""
    if dimensioned:
        return replace(column_type(oid, typmod), dimensioned=True)
    if oid != NUMERIC:
        return SqlType(oid, typmod) if oid <= FIRST_USER_TYPE else _of_user(oid, typmod)
    return SqlType(oid, typmod, declared_shape(typmod))


def declared_shape(typmod: int) -> NumericShape:
    """The shape of numeric(precision, scale), or of numeric (-1)."""
    declared = numeric_precision_scale(typmod)
    if declared is None:
        return WIDE
    precision, scale = declared
    return NumericShape(precision, scale) if precision <= MAX_DECIMAL_PRECISION and 0 <= scale <= precision else WIDE


def type_of_column(column: Column) -> SqlType:
    """The type of a column of the catalog."""
    type = column_type(column.type_oid, column.typmod, dimensioned=column.dimensioned)
    return replace(type, shape=WIDE) if column.holds_nan else type


def holds_nan(type: SqlType) -> bool:
    """Whether `type`, of a column, is a numeric held as text that would be held as decimal by what is declared of it:
    its column says so (`Column.holds_nan`)."""
    return is_wide(type) and type.typmod >= 0 and declared_shape(type.typmod).exact_scale


def computed_type(type: SqlType) -> SqlType:
    """`type` as values of it are held that are computed and not stored: in a statement that has met a NaN
    (`Held.NAN`) all numerics with a precision as texts, arrays of such too."""
    if type.typmod < 0 or type.shape is None or not type.shape.exact_scale or Held.NAN not in TYPE_SCOPE.get().held:
        return type
    return replace(type, shape=WIDE)


def under_domain(oid: int) -> int:
    """The oid of the type under a domain, or of the array over that; of every other type its own."""
    return oid if oid <= FIRST_USER_TYPE else _of_user(oid, -1).oid


def _of_user(oid: int, typmod: int) -> SqlType:
    domain = domain_of(oid)
    if domain is not None:
        return replace(column_type(domain.base_oid, domain.typmod), domain=oid)
    element = owner_of_array_type(oid)
    domain = None if element is None else domain_of(row_type_oid(element))
    if domain is not None:
        base = column_type(domain.base_oid, domain.typmod)
        array = _array_over(base.oid)
        if array:
            return SqlType(array, base.typmod, base.shape, oid)
    return SqlType(oid, typmod)


def _array_over(oid: int) -> int:
    """The oid of the array type over a type that is no domain, 0 when there is none."""
    owner = owner_of_row_type(oid)
    if owner is not None:
        return array_type_oid(owner)
    row = types().get(oid)
    return 0 if row is None else row.array


def declared_as(type: SqlType, *, is_checked: bool = False) -> int:
    """What says that a parameter is of `type` where a statement is bound: its oid, negative for an array of any
    dimensions. A domain is left to the places that ask for one, where its rules are checked, unless they have been
    (`is_checked`)."""
    oid = type.declared_oid if is_checked else type.oid
    return -oid if type.dimensioned else oid


def declared_type(declared: int) -> SqlType:
    """The type of a parameter from what `declared_as` gave."""
    return column_type(declared) if declared >= 0 else replace(column_type(-declared), dimensioned=True)
