"""Names of types: from a parsed type name to a `SqlType`, and from a type to the name that PostgreSQL prints.

A type is built in or one of a user's (`planner.types.user_types`). Domains (of information_schema) stand for the type
under them, which is what PostgreSQL reports to clients.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from planner.catalog_data.content import TypeRow, columns, type_by_name, types
from planner.common_errors import missing_schema
from planner.errors import (
    DatatypeMismatch,
    FeatureNotSupported,
    InvalidParameterValue,
    InvalidTextRepresentation,
    NumericValueOutOfRange,
    SqlError,
    SqlSyntaxError,
    UndefinedObject,
)
from planner.syntax.identifiers import quote_identifier
from planner.syntax.names import qualifier
from planner.syntax.parse import Parsed, Tree
from planner.types.types import (
    BIT,
    BPCHAR,
    CHAR,
    GTSVECTOR,
    INT2,
    INT2VECTOR,
    INT4,
    INT8,
    INTERVAL,
    NUMERIC,
    OIDVECTOR,
    RECORD_ARRAY,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    TIMETZ,
    TSQUERY,
    TSVECTOR,
    VARBIT,
    VARCHAR,
    XML,
    SqlType,
    column_type,
    computed_type,
    numeric_precision_scale,
    numeric_typmod,
)
from planner.types.user_types import find_type, is_user_type, shown_name, user_type_row
from storage.catalog.model import INFORMATION_SCHEMA_OID, PG_CATALOG_OID, CatalogSnapshot

MAX_CHARACTER_LENGTH = 10485760
"""PostgreSQL's MaxAttrSize: the longest declared length of varchar and char."""
MAX_NUMERIC_PRECISION = 1000
_TIME_TYPES = {TIME: "TIME", TIMETZ: "TIME", TIMESTAMP: "TIMESTAMP", TIMESTAMPTZ: "TIMESTAMP"}
_TIME_SUFFIX = {TIME: "", TIMETZ: " WITH TIME ZONE", TIMESTAMP: "", TIMESTAMPTZ: " WITH TIME ZONE"}

SERIAL_TYPES = {
    "smallserial": INT2,
    "serial2": INT2,
    "serial": INT4,
    "serial4": INT4,
    "bigserial": INT8,
    "serial8": INT8,
}

_FORMAT = {
    16: "boolean",
    BPCHAR: "character",
    CHAR: '"char"',
    700: "real",
    701: "double precision",
    INT2: "smallint",
    INT4: "integer",
    INT8: "bigint",
    NUMERIC: "numeric",
    INTERVAL: "interval",
    TIME: "time without time zone",
    TIMETZ: "time with time zone",
    TIMESTAMP: "timestamp without time zone",
    TIMESTAMPTZ: "timestamp with time zone",
    VARCHAR: "character varying",
    BIT: "bit",
    VARBIT: "bit varying",
}


_WITHOUT_LENGTH = {BPCHAR: "bpchar", BIT: "bit"}
"""Types that would have the length 1 if they were written by their other names."""


def type_row(oid: int) -> TypeRow | None:
    """The pg_type row of a type, or None."""
    return user_type_row(oid) if is_user_type(oid) else types().get(oid)


def type_length(oid: int) -> int:
    """pg_type.typlen: bytes of a value in PostgreSQL, -1 for no fixed length, -2 for C strings."""
    row = type_row(oid)
    return -1 if row is None else row.len


def array_of(oid: int) -> int:
    """The oid of the array type over `oid`, 0 when there is none."""
    row = type_row(oid)
    return row.array if row is not None else 0


def element_of(oid: int) -> int:
    """The element type of a true array type, else 0 (also for int2vector and oidvector, which are subscriptable but
    not arrays to the type system)."""
    row = type_row(oid)
    if row is not None and row.elem and row.len == -1 and (row.category == "A" or oid == RECORD_ARRAY):
        return row.elem
    return 0


def nests(oid: int) -> bool:
    """Whether arrays of this type are put together to one array of one more dimension: not int2vector and oidvector,
    of which there are arrays."""
    return bool(element_of(oid)) and oid not in (INT2VECTOR, OIDVECTOR)


def subscript_element(oid: int) -> int:
    """The type that subscripting a value of `oid` gives, else 0: also of int2vector, oidvector, point, name."""
    row = type_row(oid)
    return row.elem if row is not None else 0


def format_type(oid: int, typmod: int | None = None) -> str:
    """The name that PostgreSQL's format_type prints. Without `typmod` (None) it is format_type_be's, for messages."""
    row = type_row(oid)
    if row is None:
        return "???" if oid else "-"
    true_array = row.elem and row.len == -1 and (row.category == "A" or row.name.startswith("_"))
    if true_array and oid not in (INT2VECTOR, OIDVECTOR):
        return f"{format_type(row.elem, typmod)}[]"
    if oid in _WITHOUT_LENGTH and typmod == -1:
        return quote_identifier(_WITHOUT_LENGTH[oid])
    name = _FORMAT.get(oid)
    if name is None:
        if is_user_type(oid):
            return shown_name(row)
        plain = quote_identifier(row.name)
        return f"information_schema.{plain}" if row.namespace == INFORMATION_SCHEMA_OID else plain
    if typmod is None or typmod < 0:
        return name
    if oid in (BPCHAR, VARCHAR):
        return f"{name}({typmod - 4})" if typmod > 4 else name
    if oid in (BIT, VARBIT):
        return f"{name}({typmod})"
    if oid == NUMERIC:
        shape = numeric_precision_scale(typmod)
        return f"{name}({shape[0]},{shape[1]})" if shape else name
    if oid in _TIME_TYPES:
        head, _, rest = name.partition(" ")
        return f"{head}({typmod}) {rest}"
    if oid == INTERVAL:
        return name + _interval_typmod_text(typmod)
    return name


_INTERVAL_FIELDS = {
    4: " year",
    2: " month",
    8: " day",
    1024: " hour",
    2048: " minute",
    4096: " second",
    6: " year to month",
    1032: " day to hour",
    3080: " day to minute",
    7176: " day to second",
    3072: " hour to minute",
    7168: " hour to second",
    6144: " minute to second",
    0x7FFF: "",
}


def _interval_typmod_text(typmod: int) -> str:
    precision = typmod & 0xFFFF
    fields = _INTERVAL_FIELDS.get((typmod >> 16) & 0x7FFF, "")
    return fields if precision == 0xFFFF else f"{fields}({precision})"


class UnknownName(UndefinedObject):
    """A type or collation that does not exist, found without a catalog: `judged` says what is wrong with its name."""

    def __init__(self, message: str, names: tuple[str, ...], position: int | None) -> None:
        super().__init__(message, position=position)
        self.names = names

    def judged(self, catalog: CatalogSnapshot, database: str, *, located: bool = True) -> SqlError:
        """The error where `catalog` and the name of the database are known: 3F000 when its schema does not exist."""
        position = self.position if located else None
        try:
            # PostgreSQL gives no position here.
            schema = qualifier(self.names, database)
        except SqlError as error:
            return error
        if schema is not None and catalog.schema(schema) is None:
            return missing_schema(schema, position)
        return UndefinedObject(self.message, position=position)


def resolve_type_name(node: Tree, parsed: Parsed, *, located: bool = True) -> SqlType:
    """The type that a TypeName node means. Errors have a position when `located`.

    Raises `UnknownName` for a type that does not exist, 22023 for a bad modifier, 0A000 for SETOF and %TYPE.
    """
    names = tuple(name.string.sval for name in node.names)
    bounds = len(node.array_bounds)
    position = parsed.position(node.location) if located else None
    if node.pct_type:
        raise FeatureNotSupported("type references with %TYPE are not supported", position=position)
    if not node.typmods and not bounds:
        cached = _PLAIN.get(names)
        if cached is not None:
            return cached
    row = lookup_type(names)
    if row is None or (row.type == "p" and row.name == "unknown" and len(names) == 0):
        text = ".".join(names) + "[]" * bounds
        raise UnknownName(f'type "{text}" does not exist', names, position)
    if row.oid in _NOT_HELD or row.elem in _NOT_HELD:
        raise FeatureNotSupported(f"type {'.'.join(names[-1:])} is not supported", position=position)
    if row.type == "d" and not is_user_type(row.oid):
        base = types()[row.basetype]
        domain_typmod = row.typmod
        row = base
        result = column_type(base.oid, domain_typmod)
    else:
        result = computed_type(column_type(row.oid, _typmod(node, row, position)))
    if bounds:
        if not row.array:
            text = ".".join(names) + "[]" * bounds
            raise UnknownName(f'type "{text}" does not exist', names, position)
        result = column_type(row.array) if result.domain else SqlType(row.array, result.typmod, result.shape)
        result = computed_type(result)
        if bounds > 1:
            result = replace(result, dimensioned=True)
    elif not node.typmods and not is_user_type(row.oid):
        _PLAIN[names] = result
    return result


_PLAIN: dict[tuple[str, ...], SqlType] = {}

_NOT_HELD = frozenset({XML, TSVECTOR, GTSVECTOR, TSQUERY})
"""Types without input here. No column and no cast is of them, lest any text be taken for a value."""


def lookup_type(names: tuple[str, ...]) -> TypeRow | None:
    """The type with this name, possibly qualified; None when there is none. Unqualified built-in ones come first."""
    if len(names) == 1:
        return type_by_name().get((PG_CATALOG_OID, names[0])) or type_row(find_type(names))
    schema = {"pg_catalog": PG_CATALOG_OID, "information_schema": INFORMATION_SCHEMA_OID}.get(names[-2])
    if schema is None:
        return type_row(find_type(names))
    return type_by_name().get((schema, names[-1]))


def check_collation(names: tuple[str, ...], position: int | None) -> None:
    """Raises `UnknownName` for a collation that does not exist."""
    known = columns("pg_collation")["collname"]
    if names[-1] not in known or (len(names) > 1 and names[-2] != "pg_catalog"):
        raise UnknownName(f'collation "{".".join(names)}" for encoding "UTF8" does not exist', names, position)


def collation_oid(name: str) -> int:
    """The oid of the collation `name`, which there is."""
    data = columns("pg_collation")
    return int(data["oid"][data["collname"].index(name)])


def check_collatable(type: SqlType, position: int | None) -> None:
    """Raises 42804 for a type whose values are not sorted by a collation."""
    row = type_row(type.oid)
    if row is None or not row.collation:
        raise DatatypeMismatch(f"collations are not supported by type {format_type(type.oid)}", position=position)


def _typmod(node: Tree, row: TypeRow, position: int | None) -> int:
    if not node.typmods:
        return -1
    if not _takes_modifier(element_of(row.oid) or row.oid):
        raise SqlSyntaxError(f'type modifier is not allowed for type "{_name(row.oid)}"', position=position)
    texts = [_modifier_text(typmod) for typmod in node.typmods]
    if None in texts:
        raise SqlSyntaxError("type modifiers must be simple constants or identifiers", position=position)
    return type_modifier(row.oid, [_modifier(text or "", position) for text in texts], position)


def _modifier_text(node: Tree) -> str | None:
    """What a modifier is written as: a number, a string or an identifier; None for other expressions
    (typenameTypeMod)."""
    if (
        node.HasField("column_ref")
        and len(node.column_ref.fields) == 1
        and node.column_ref.fields[0].HasField("string")
    ):
        return str(node.column_ref.fields[0].string.sval)
    if not node.HasField("a_const"):
        return None
    constant = node.a_const
    if constant.HasField("ival"):
        return str(constant.ival.ival)
    if constant.HasField("fval"):
        return str(constant.fval.fval)
    return str(constant.sval.sval) if constant.HasField("sval") else None


def _modifier(text: str, position: int | None) -> int:
    """A modifier as a number. 22P02, 22003."""
    if _INTEGER.fullmatch(text) is None:
        raise InvalidTextRepresentation(f'invalid input syntax for type integer: "{text}"', position=position)
    # Python reads no number of thousands of digits.
    digits = text.strip().lstrip("+-").lstrip("0") or "0"
    value = int(digits[:20]) * (-1 if "-" in text else 1)
    if not -(2**31) <= value < 2**31:
        raise NumericValueOutOfRange(f'value "{text}" is out of range for type integer', position=position)
    return value


def _takes_modifier(oid: int) -> bool:
    return oid in (VARCHAR, BPCHAR, NUMERIC, INTERVAL, BIT, VARBIT) or oid in _TIME_TYPES


def type_modifier(oid: int, values: list[int], position: int | None = None) -> int:
    """The typmod that `values` (as written in parentheses) mean for a type. Raises 22023 like PostgreSQL's typmodin
    functions, 42601 where the type takes none."""
    element = element_of(oid)
    if element:
        return type_modifier(element, values, position)
    if oid in (VARCHAR, BPCHAR):
        name = "varchar" if oid == VARCHAR else "char"
        if len(values) != 1:
            raise InvalidParameterValue("invalid type modifier", position=position)
        if values[0] < 1:
            raise InvalidParameterValue(f"length for type {name} must be at least 1", position=position)
        if values[0] > MAX_CHARACTER_LENGTH:
            raise InvalidParameterValue(
                f"length for type {name} cannot exceed {MAX_CHARACTER_LENGTH}", position=position
            )
        return values[0] + 4
    if oid == NUMERIC:
        return _numeric_modifier(values, position)
    if oid in _TIME_TYPES:
        if len(values) != 1:
            raise InvalidParameterValue("invalid type modifier", position=position)
        if values[0] < 0:
            raise InvalidParameterValue(
                f"{_TIME_TYPES[oid]}({values[0]}){_TIME_SUFFIX[oid]} precision must not be negative", position=position
            )
        return min(values[0], 6)
    if oid == INTERVAL:
        fields = values[0]
        if fields not in _INTERVAL_FIELDS:
            raise InvalidParameterValue("invalid INTERVAL type modifier", position=position)
        if len(values) == 1:
            return -1 if fields == 0x7FFF else (fields << 16) | 0xFFFF
        if values[1] < 0:
            raise InvalidParameterValue(f"INTERVAL({values[1]}) precision must not be negative", position=position)
        return (fields << 16) | min(values[1], 6)
    if oid in (BIT, VARBIT):
        if len(values) != 1 or values[0] < 1:
            name = "bit" if oid == BIT else "varbit"
            raise InvalidParameterValue(f"length for type {name} must be at least 1", position=position)
        return values[0]
    raise SqlSyntaxError(f'type modifier is not allowed for type "{_name(oid)}"', position=position)


_INTEGER = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+[ \t\n\v\f\r]*")


def _name(oid: int) -> str:
    row = type_row(oid)
    return "???" if row is None else row.name


def _numeric_modifier(values: list[int], position: int | None) -> int:
    if len(values) not in (1, 2):
        raise InvalidParameterValue("invalid NUMERIC type modifier", position=position)
    precision, scale = values[0], values[1] if len(values) == 2 else 0
    if not 1 <= precision <= MAX_NUMERIC_PRECISION:
        raise InvalidParameterValue(
            f"NUMERIC precision {precision} must be between 1 and {MAX_NUMERIC_PRECISION}", position=position
        )
    if not -1000 <= scale <= 1000:
        raise InvalidParameterValue(f"NUMERIC scale {scale} must be between -1000 and 1000", position=position)
    return numeric_typmod(precision, scale)
