"""Operators: overload resolution by PostgreSQL's chapter 10.2, and the calls that operators become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from planner.common_errors import missing_operator, missing_schema
from planner.errors import (
    AmbiguousFunction,
    DatatypeMismatch,
    FeatureNotSupported,
    SqlSyntaxError,
    UndefinedFunction,
    UndefinedObject,
    WrongObjectType,
)
from planner.functions import of_extensions, registry
from planner.ir.composite import Composite
from planner.ir.nodes import (
    BoolOp,
    Call,
    Case,
    Coalesce,
    Distinct,
    IsNull,
    Literal,
    RowConstructor,
    Scalar,
)
from planner.ir.written import RecordComparison, RowComparison
from planner.resolution.casting import call_type, coerce, resolve_unknown, to_boolean, with_like_arrays
from planner.resolution.coercion import (
    Ambiguous,
    Context,
    can_coerce,
    candidates,
    category,
    choose,
    concrete_signature,
    resolve_polymorphic,
)
from planner.resolution.records import fields_of, is_written_row
from planner.resolution.statement import Level
from planner.syntax.names import qualifier
from planner.syntax.parse import Tree
from planner.types import types as t
from planner.types.base_types import base_type
from planner.types.signature import Signature, Volatility
from planner.types.type_names import array_of, element_of, format_type
from planner.types.type_scope import TYPE_SCOPE
from planner.types.types import BOOL, RECORD, UNKNOWN, SqlType, column_type
from planner.types.user_types import STORED_SCHEMA, attributes, is_user_type, kept_schema
from storage.catalog.model import Schema
from storage.catalog.types import BaseType

BOOLEAN = SqlType(BOOL)


def operator_symbol(level: Level, names: tuple[str, ...], location: int) -> str:
    """The symbol of a possibly qualified operator name; those that are not in pg_catalog are an extension's, and keep
    the name of their schema."""
    schema = qualifier(names, level.statement.context.database)
    if schema is not None and schema.startswith(f"{STORED_SCHEMA}."):
        return ".".join(names)
    if schema is not None and schema != "pg_catalog":
        if level.statement.context.catalog.schema(schema) is None and schema != "information_schema":
            raise missing_schema(schema, level.statement.position(location))
        return ".".join(names)
    return names[-1]


def _resolve(level: Level, symbol: str, left: int, right: int, *, built_in: bool) -> Signature | None:
    """The overload of a binary operator for argument types. None: none fits. Raises `Ambiguous`."""
    over_rows = symbol.rpartition(".")[2] in of_extensions.OVER_ROWS
    if (is_user_type(left) or is_user_type(right) or over_rows) and not built_in:
        return _find_overload(symbol, left, right, made_operators(level, symbol, (left, right)))
    if is_user_type(left) or is_user_type(right):
        return _find_overload(symbol, left, right)
    return _built_in_overload(symbol, left, right)


@lru_cache(maxsize=4096)
def _built_in_overload(symbol: str, left: int, right: int) -> Signature | None:
    return _find_overload(symbol, left, right)


def _find_overload(symbol: str, left: int, right: int, made: Sequence[Signature] = ()) -> Signature | None:
    overloads = [signature for signature in (*registry.operators(symbol), *made) if len(signature.args) == 2]
    exact = (left, right)
    if UNKNOWN in exact and left != right:
        known = right if left == UNKNOWN else left
        exact = (known, known)
    for signature in overloads:
        if signature.args == exact:
            return signature
    found = choose(candidates(overloads, 2), (left, right))
    return found.signature if found is not None else None


def _resolve_prefix(level: Level, symbol: str, operand: int) -> Signature | None:
    if is_user_type(operand):
        return _find_prefix(symbol, operand, made_operators(level, symbol, (operand,)))
    return _built_in_prefix(symbol, operand)


@lru_cache(maxsize=1024)
def _built_in_prefix(symbol: str, operand: int) -> Signature | None:
    return _find_prefix(symbol, operand)


def _find_prefix(symbol: str, operand: int, made: Sequence[Signature] = ()) -> Signature | None:
    overloads = [signature for signature in (*registry.operators(symbol), *made) if len(signature.args) == 1]
    found = choose(candidates(overloads, 1), (operand,))
    return found.signature if found is not None else None


def made_operators(level: Level, symbol: str, operands: Sequence[int]) -> list[Signature]:
    """The operators of extensions over the types of the operands, of which one is a user's, where their schema is
    searched."""
    found: list[Signature] = []
    schema, _, name = symbol.rpartition(".")
    made = [record for oid in dict.fromkeys(operands) if (record := base_type(oid)) is not None]
    if not made and UNKNOWN in operands and name in of_extensions.OVER_ROWS:
        records = TYPE_SCOPE.get().catalog.type_names.values()
        made = [each for oid in records if isinstance(each := TYPE_SCOPE.get().catalog.get(oid), BaseType)]
    for record in made:
        if is_searched(level, record, schema):
            found += of_extensions.operators(record, name)
    return found


def is_searched(level: Level, record: BaseType, schema: str) -> bool:
    """Whether names of `schema` (empty: of no schema) can be those of what the extension of the type has made. What is
    stored means what it meant."""
    statement = level.statement
    stored = statement.reads_stored or (statement.view_depth > 0 and statement.arguments is None)
    if (stored and not schema) or schema == kept_schema(record.oid):
        return True
    of = TYPE_SCOPE.get().catalog.get(record.schema)
    assert isinstance(of, Schema)
    return of.name == schema if schema else of.name in statement.context.search_path


def note_operator(level: Level, tree: Tree, operator: Signature) -> None:
    """Remember, for who writes out a definition, that an expression (A_Expr, or SubLink) has an operator of an
    extension."""
    statement = level.statement
    if statement.definition is not None and statement.view_depth == 0:
        record = of_extensions.type_of(operator)
        if record is not None:
            statement.definition.operators.append((tree, record.oid))


def find_operator(
    level: Level, symbol: str, left: int, right: int, location: int, *, built_in: bool = False
) -> Signature:
    """The binary operator for operand types, with `built_in` one of pg_catalog. Raises 42883 and 42725 with
    PostgreSQL's texts."""
    shown = f"pg_catalog.{symbol}" if built_in else symbol
    try:
        signature = _resolve(level, symbol, left, right, built_in=built_in)
    except Ambiguous:
        raise _ambiguous(level, f"{format_type(left)} {shown} {format_type(right)}", location) from None
    if signature is None:
        raise _undefined(level, f"{format_type(left)} {shown} {format_type(right)}", location)
    return signature


def _undefined(level: Level, text: str, location: int, *, prefix: bool = False) -> UndefinedFunction:
    hint = "No operator matches the given name and argument types. You might need to add explicit type casts."
    if prefix:
        hint = "No operator matches the given name and argument type. You might need to add an explicit type cast."
    return missing_operator(text, hint=hint, position=level.statement.position(location))


def _ambiguous(level: Level, text: str, location: int) -> AmbiguousFunction:
    return AmbiguousFunction(
        f"operator is not unique: {text}",
        hint="Could not choose a best candidate operator. You might need to add explicit type casts.",
        position=level.statement.position(location),
    )


def build_call(level: Level, signature: Signature, args: list[Scalar], location: int) -> Call:
    """A call to `signature` with `args` cast to what it takes."""
    statement = level.statement
    declared = signature.args
    actual = tuple(arg.type.oid for arg in args)
    concrete, result = resolve_polymorphic(signature, declared, actual)
    if t.ANYARRAY in declared and signature.name in _OF_ELEMENTS:
        _check_elements(signature.name, element_of(concrete[declared.index(t.ANYARRAY)]))
    signature = concrete_signature(signature, concrete, result)
    bound = with_like_arrays(
        statement,
        [
            coerce(statement, arg, column_type(wanted), Context.IMPLICIT)
            for arg, wanted in zip(args, concrete, strict=True)
        ],
    )
    constants = tuple(arg.value if isinstance(arg, Literal) else None for arg in bound)
    bound, type = call_type(statement, signature, bound, constants)
    if signature.volatility is Volatility.VOLATILE:
        statement.volatile = True
    first = statement.location(args[0]) if args else -1
    where = min(first, location) if first >= 0 and location >= 0 else location
    result_call: Call = statement.at(Call(signature=signature, args=tuple(bound), type=type), where)
    return result_call


def make_operator(level: Level, names: tuple[str, ...], left: Scalar | None, right: Scalar, location: int) -> Scalar:
    """`left op right`, or the prefix operator when `left` is None; rows are compared field by field."""
    symbol = operator_symbol(level, names, location)
    if symbol == "!=":
        symbol = "<>"
    if left is not None and is_written_row(left) and is_written_row(right):
        return compare_rows(level, symbol, left, right, location)
    if left is None:
        shown = f"pg_catalog.{symbol}" if len(names) > 1 and "." not in symbol else symbol
        try:
            signature = _resolve_prefix(level, symbol, right.type.oid)
        except Ambiguous:
            raise _ambiguous(level, f"{shown} {format_type(right.type.oid)}", location) from None
        if signature is None:
            raise _undefined(level, f"{shown} {format_type(right.type.oid)}", location, prefix=True)
        return build_call(level, signature, [right], location)
    if symbol in _ROW_OPERATORS and {category(left.type.oid), category(right.type.oid)} & {"C"}:
        compared = _compare_composites(level, symbol, left, right, location)
        if compared is not None:
            return compared
    if left.type.oid == right.type.oid == RECORD:
        if symbol in _ROW_OPERATORS and any(isinstance(side, Literal) and side.value is None for side in (left, right)):
            return level.statement.at(Literal(value=None, type=BOOLEAN), location)
        ours, theirs = fields_of(level, left), fields_of(level, right)
        if symbol in _ROW_OPERATORS and ours is not None and theirs is not None:
            return _compare_fields(level, symbol, left, right, _comparable(level, ours, theirs), location)
        raise FeatureNotSupported(
            "comparison of a record that is not a row constructor is not supported",
            position=level.statement.position(location),
        )
    if symbol in _ROW_OPERATORS and {left.type.oid, right.type.oid} == {RECORD, UNKNOWN}:
        return _compare_with_unknown(level, left if left.type.oid == UNKNOWN else right, location)
    built_in = len(names) > 1 and "." not in symbol
    signature = find_operator(level, symbol, left.type.oid, right.type.oid, location, built_in=built_in)
    return build_call(level, signature, [left, right], location)


_ROW_OPERATORS = {"=", "<>", "<", "<=", ">", ">="}
_OF_ELEMENTS: Mapping[str, str] = {
    **dict.fromkeys(("=", "<>", "@>", "<@", "&&"), "an equality operator"),
    **dict.fromkeys(("<", "<=", ">", ">="), "a comparison function"),
}
"""What operators of arrays need for their elements."""


def _check_elements(symbol: str, element: int) -> None:
    """Raises 42883 where elements have not what the operator of arrays needs."""
    if element in (_UNHASHABLE_AS_EQUAL if "equality" in _OF_ELEMENTS[symbol] else _UNSORTABLE):
        raise UndefinedFunction(f"could not identify {_OF_ELEMENTS[symbol]} for type {format_type(element)}")


def _compare_with_unknown(level: Level, side: Scalar, location: int) -> Scalar:
    """A record compared with a constant or parameter of no type, which becomes a record: as none can be read from a
    text or from bytes, it is NULL whenever the comparison is reached, and so is the result."""
    coerce(level.statement, side, SqlType(RECORD), Context.IMPLICIT)
    return level.statement.at(Literal(value=None, type=BOOLEAN), location)


def _compare_composites(level: Level, symbol: str, left: Scalar, right: Scalar, location: int) -> Scalar | None:
    """Values of a composite type compared as PostgreSQL compares records: field by field, where NULL is equal to NULL
    and larger than anything else. None when the other side is no row."""
    statement = level.statement
    oid = left.type.oid if category(left.type.oid) == "C" else right.type.oid
    for side in (left, right):
        if side.type.oid == UNKNOWN and isinstance(side, Literal) and side.value is not None:
            raise FeatureNotSupported(
                "input of anonymous composite types is not implemented", position=statement.position_of(side)
            )
    left, right = (
        coerce(statement, side, SqlType(oid), Context.IMPLICIT) if side.type.oid == UNKNOWN else side
        for side in (left, right)
    )
    ours, theirs = _parts(level, left), _parts(level, right)
    if ours is None or theirs is None:
        return None
    return _compare_fields(level, symbol, left, right, _comparable(level, ours, theirs), location)


def _parts(level: Level, side: Scalar) -> Sequence[Scalar] | None:
    """The fields of a record or of a value of a composite type; None where they are not known."""
    if isinstance(side, Literal) and isinstance(side.value, Composite):
        fields = attributes(side.type.oid) or ()
        return [Literal(value=value, type=field.type) for value, field in zip(side.value.items, fields, strict=True)]
    return fields_of(level, side)


def _comparable(level: Level, left: Sequence[Scalar], right: Sequence[Scalar]) -> list[tuple[Scalar, Scalar]]:
    """The fields of two records, side by side. Raises 42804 when they are not alike."""
    if len(left) != len(right):
        raise DatatypeMismatch("cannot compare record types with different numbers of columns")
    pairs = [
        (resolve_unknown(level.statement, a), resolve_unknown(level.statement, b))
        for a, b in zip(left, right, strict=True)
    ]
    for number, (a, b) in enumerate(pairs, 1):
        if a.type.oid != b.type.oid:
            types = f"{format_type(a.type.oid)} and {format_type(b.type.oid)}"
            raise DatatypeMismatch(f"cannot compare dissimilar column types {types} at record column {number}")
    return pairs


def _compare_fields(
    level: Level, symbol: str, left: Scalar, right: Scalar, pairs: Sequence[tuple[Scalar, Scalar]], location: int
) -> Scalar:
    """Two records compared by the `pairs` of their fields: NULL is equal to NULL and larger than anything else."""
    equal: list[Scalar] = [Distinct(left=a, right=b, negated=True, type=BOOLEAN) for a, b in pairs]
    result: Scalar
    if symbol in ("=", "<>"):
        result = BoolOp(op="and", args=tuple(equal), type=BOOLEAN) if len(equal) != 1 else equal[0]
        if symbol == "<>":
            result = BoolOp(op="not", args=(result,), type=BOOLEAN)
    else:
        result = Literal(value="=" in symbol, type=BOOLEAN)
        for (a, b), same in zip(reversed(pairs), reversed(equal), strict=True):
            low, high = (a, b) if symbol[0] == "<" else (b, a)
            less = make_operator(level, ("<",), low, high, location)
            before = BoolOp(
                op="or",
                args=(
                    Coalesce(args=(less, Literal(value=False, type=BOOLEAN)), type=BOOLEAN),
                    BoolOp(
                        op="and",
                        args=(
                            IsNull(arg=low, negated=True, type=BOOLEAN),
                            IsNull(arg=high, negated=False, type=BOOLEAN),
                        ),
                        type=BOOLEAN,
                    ),
                ),
                type=BOOLEAN,
            )
            result = BoolOp(op="or", args=(before, BoolOp(op="and", args=(same, result), type=BOOLEAN)), type=BOOLEAN)
    parts = [side.value if isinstance(side, RowConstructor) else side for side in (left, right)]
    sides = [part for part in parts if part is not None]
    if sides:
        known = [IsNull(arg=side, negated=True, type=BOOLEAN) for side in sides]
        condition: Scalar = known[0] if len(known) == 1 else BoolOp(op="and", args=tuple(known), type=BOOLEAN)
        result = Case(whens=((condition, result),), otherwise=Literal(value=None, type=BOOLEAN), type=BOOLEAN)
    form = RecordComparison(symbol=symbol, left=left, right=right)
    return level.statement.written_as(level.statement.at(result, location), form)


def compare_rows(level: Level, symbol: str, left: RowConstructor, right: RowConstructor, location: int) -> Scalar:
    """Row comparison, written out field by field (PostgreSQL, "Row and Array Comparisons")."""
    statement = level.statement
    position = statement.position(location)
    if len(left.items) != len(right.items):
        raise SqlSyntaxError("unequal number of entries in row expressions", position=position)
    if not left.items:
        raise FeatureNotSupported("cannot compare rows of zero length", position=position)
    if len(left.items) == 1:
        return make_operator(level, (symbol,), left.items[0], right.items[0], location)
    if symbol not in _ROW_OPERATORS:
        for a, b in zip(left.items, right.items, strict=True):
            result = make_operator(level, (symbol,), a, b, location)
            if result.type.oid != BOOL:
                raise DatatypeMismatch(
                    f"row comparison operator must yield type boolean, not type {format_type(result.type.oid)}",
                    position=position,
                )
        raise FeatureNotSupported(
            f"could not determine interpretation of row comparison operator {symbol}",
            hint="Row comparison operators must be associated with btree operator families.",
            position=position,
        )
    pairs = list(zip(left.items, right.items, strict=True))

    def compare(operator: str, index: int) -> Scalar:
        return to_boolean(statement, make_operator(level, (operator,), *pairs[index], location), "row comparison")

    if symbol in ("=", "<>"):
        parts = tuple(compare(symbol, index) for index in range(len(pairs)))
        return statement.at(BoolOp(op="and" if symbol == "=" else "or", args=parts, type=BOOLEAN), location)
    strict = symbol[0]
    result = compare(symbol, len(pairs) - 1)
    compared = [result]
    for index in range(len(pairs) - 2, -1, -1):
        equal = BoolOp(op="and", args=(compare("=", index), result), type=BOOLEAN)
        compared.insert(0, compare(strict, index))
        result = BoolOp(op="or", args=(compared[0], equal), type=BOOLEAN)
    # Those of rows are no calls.
    sides = [call.args if isinstance(call, Call) else pair for call, pair in zip(compared, pairs, strict=True)]
    form = RowComparison(symbol=symbol, left=tuple(a for a, _ in sides), right=tuple(b for _, b in sides))
    return statement.written_as(statement.at(result, location), form)


def array_operator(
    level: Level, names: tuple[str, ...], left: Scalar, right: Scalar, location: int
) -> tuple[Scalar, Signature, Scalar]:
    """For `left op ANY/ALL (right)`: the two sides cast, and the operator between left and an element
    (make_scalar_array_op)."""
    statement = level.statement
    symbol = operator_symbol(level, names, location)
    if symbol == "!=":
        symbol = "<>"
    position = statement.position(location)
    if right.type.oid == UNKNOWN:
        element = UNKNOWN
    else:
        element = element_of(right.type.oid)
        element = {t.INT2VECTOR: t.INT2, t.OIDVECTOR: t.OID}.get(right.type.oid, element)
        if not element:
            raise WrongObjectType("op ANY/ALL (array) requires array on right side", position=position)
    built_in = len(names) > 1 and "." not in symbol
    signature = find_operator(level, symbol, left.type.oid, element, location, built_in=built_in)
    concrete, result = resolve_polymorphic(signature, signature.args, (left.type.oid, element))
    signature = concrete_signature(signature, concrete, result)
    if result != BOOL:
        raise WrongObjectType("op ANY/ALL (array) requires operator to yield boolean", position=position)
    array = array_of(concrete[1])
    if not array:
        raise UndefinedObject(f"could not find array type for data type {format_type(concrete[1])}", position=position)
    left = coerce(statement, left, column_type(concrete[0]), Context.IMPLICIT)
    if right.type.oid != array:
        if not can_coerce(right.type.oid, array, Context.IMPLICIT):
            raise WrongObjectType("op ANY/ALL (array) requires array on right side", position=position)
        right = coerce(statement, right, column_type_of_array(array), Context.IMPLICIT)
    return left, signature, right


def column_type_of_array(oid: int) -> SqlType:
    """The array type `oid`, with the shape of unconstrained numeric where its element is numeric."""
    element = element_of(oid)
    return SqlType(oid, -1, column_type(element).shape)


_UNSORTABLE = frozenset({
    t.JSON, t.XML, t.POINT, t.LSEG, t.PATH, t.BOX, t.POLYGON, t.LINE, t.CIRCLE, t.XID, t.CID, t.ACLITEM, t.CSTRING,
})  # fmt: skip
"""json, xml, the geometric types and a few more: no default btree operator class."""
_UNHASHABLE_AS_EQUAL = frozenset({t.JSON, t.XML, t.POINT, t.LSEG, t.PATH, t.BOX, t.POLYGON, t.LINE, t.CIRCLE})


def is_made_of(oid: int, types: frozenset[int]) -> bool:
    """Whether a type is one of `types`, or has elements or fields of one of them."""
    oid = element_of(oid) or oid
    return oid in types or any(is_made_of(field.type.oid, types) for field in attributes(oid) or ())


def check_sortable(level: Level, scalar: Scalar, location: int = -1) -> None:
    """Raises 42883 when values of the scalar's type have no order; `location` is the clause's item."""
    if is_made_of(scalar.type.oid, _UNSORTABLE):
        raise UndefinedFunction(
            f"could not identify an ordering operator for type {format_type(scalar.type.oid)}",
            hint="Use an explicit ordering operator or modify the query.",
            position=level.statement.position(location) or level.statement.position_of(scalar),
        )


def check_groupable(level: Level, scalar: Scalar, location: int = -1) -> None:
    """Raises 42883 when values of the scalar's type cannot be compared for equality."""
    if is_made_of(scalar.type.oid, _UNHASHABLE_AS_EQUAL):
        raise UndefinedFunction(
            f"could not identify an equality operator for type {format_type(scalar.type.oid)}",
            position=level.statement.position(location) or level.statement.position_of(scalar),
        )
