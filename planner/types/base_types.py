"""The types that extensions make (`storage.catalog.types.BaseType`): what pg_type says of each kind, how its values are
held, its casts and its operator classes. Their operators are `planner.functions.of_extensions`'.

A citext is held as the text that it is, and compared by its lower case (`planner.dialects.comparison_keys`). An hstore
is held as its text too, which has one form (`planner.values.opaque.hstore_text`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from planner.extensions.operator_classes import OperatorClass
from planner.types.derived_oids import FIRST_USER_TYPE
from planner.types.type_scope import record_of
from planner.types.types import BOOL, BPCHAR, INET, JSON, JSONB, TEXT, VARCHAR, SqlType
from storage.catalog.types import BaseType

CITEXT, HSTORE = "citext", "hstore"

_TEXT_ARRAY = 1009
_DEFAULT_COLLATION = 100


class CastRule(Struct, frozen=True):
    """A row of pg_cast: `context` is castcontext; `function` says whether the value changes."""

    context: str
    function: bool = False


class BaseKind(Struct, frozen=True, kw_only=True):
    """What is the same for the type wherever it is made, and whatever it is called. `casts` are by the oids of source
    and target, 0 stands for the type."""

    category: str
    collation: int = 0
    casts: Mapping[tuple[int, int], CastRule]
    first_cast: int
    """The oid of the first of them, one that PostgreSQL never gives out. The others follow."""
    operator_classes: tuple[OperatorClass, ...] = ()


KINDS: Mapping[str, BaseKind] = {
    CITEXT: BaseKind(
        category="S",
        collation=_DEFAULT_COLLATION,
        casts={
            (0, TEXT): CastRule("i"),
            (0, VARCHAR): CastRule("i"),
            (0, BPCHAR): CastRule("a"),
            (TEXT, 0): CastRule("a"),
            (VARCHAR, 0): CastRule("a"),
            (BPCHAR, 0): CastRule("a", function=True),
            (BOOL, 0): CastRule("a", function=True),
            (INET, 0): CastRule("a", function=True),
        },
        first_cast=15661,
        operator_classes=(
            OperatorClass(oid=15601, name="citext_ops", method="btree", equality=15610),
            OperatorClass(oid=15602, name="citext_ops", method="hash", equality=15610),
        ),
    ),
    HSTORE: BaseKind(
        category="U",
        casts={
            (0, JSON): CastRule("e", function=True),
            (0, JSONB): CastRule("e", function=True),
            (_TEXT_ARRAY, 0): CastRule("e", function=True),
        },
        first_cast=15791,
        operator_classes=(
            OperatorClass(oid=15701, name="btree_hstore_ops", method="btree", equality=15723),
            OperatorClass(oid=15702, name="hash_hstore_ops", method="hash", equality=15723),
            OperatorClass(oid=15703, name="gist_hstore_ops", method="gist", has_signatures=True),
            OperatorClass(oid=15704, name="gin_hstore_ops", method="gin", key="text"),
        ),
    ),
}
"""By `BaseType.kind`."""

_CLASSES = {each.oid: (kind, each) for kind, of in KINDS.items() for each in of.operator_classes}


def base_type(oid: int) -> BaseType | None:
    """The type `oid` of an extension, or None when it is none."""
    if oid <= FIRST_USER_TYPE:
        return None
    record = record_of(oid)
    return record if isinstance(record, BaseType) else None


def kind_of(oid: int) -> str | None:
    """Which type of an extension `oid` is; None for other types."""
    record = base_type(oid)
    return None if record is None else record.kind


def like_text(type: SqlType) -> SqlType:
    """text in the place of a type that is text to everything but comparisons; other types as they are."""
    if type.oid <= FIRST_USER_TYPE or kind_of(type.oid) != CITEXT:
        return type
    return replace(type, oid=TEXT)


def cast_rule(source: int, target: int) -> CastRule | None:
    """How a value of one type becomes one of the other, of which one is a type of an extension that says it."""
    for kind, pair in ((kind_of(source), (0, target)), (kind_of(target), (source, 0))):
        if kind is not None and pair in KINDS[kind].casts:
            return KINDS[kind].casts[pair]
    return None


def operator_classes(oid: int, method: str) -> Iterable[OperatorClass]:
    """The operator classes for values of the type `oid`, the default one first; none for types of no extension."""
    kind = kind_of(oid)
    return () if kind is None else [each for each in KINDS[kind].operator_classes if each.method == method]


def operator_class_called(oid: int) -> tuple[str, OperatorClass] | None:
    """The kind of type that the operator class `oid` is for, and the class; None when it is of no extension."""
    return _CLASSES.get(oid)
