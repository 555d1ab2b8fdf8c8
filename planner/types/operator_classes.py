"""Operator classes and collations of index keys: which one a type has by default, and those that a statement names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache, lru_cache

from planner.catalog_data.content import casts, columns, type_by_name
from planner.common_errors import missing_schema
from planner.errors import DatatypeMismatch, InvalidParameterValue, UndefinedObject
from planner.extensions.operator_classes import (
    BY_OID,
    EXTENSION_OF,
    OVER_BUILTIN_TYPES,
    WITH_DISTANCES,
    WITHOUT_VALUES,
    OperatorClass,
)
from planner.types import types as t
from planner.types.base_types import KINDS, kind_of, operator_class_called, operator_classes
from planner.types.derived_oids import row_type_oid
from planner.types.type_names import check_collation, collation_oid, element_of, format_type, type_row
from planner.types.type_scope import TYPE_SCOPE
from storage.catalog.model import PG_CATALOG_OID, Column, Schema
from storage.catalog.outside import Extension
from storage.catalog.types import BaseType

DEFAULT_COLLATION = 100
"""The oid of the collation "default"."""

METHODS = {"btree": 403, "hash": 405}
"""The access methods whose indexes hold keys here, with their oids."""

ACCESS_METHODS = METHODS | {"gist": 783, "gin": 2742, "brin": 3580, "spgist": 4000}
"""All of PostgreSQL's. Indexes of the methods that are not `METHODS` stand in the catalog and hold nothing, but for
those of exclusion constraints."""

_GIST_COMPRESS, _GIST_FETCH = 3, 9
"""Support functions of GiST."""

_ANY_ELEMENT, _ANY_ARRAY, _RECORD, _ANY_ENUM, _ANY_RANGE, _ANY_MULTIRANGE = 2283, 2277, 2249, 3500, 3831, 4537
_OF_KINDS = {"c": _RECORD, "e": _ANY_ENUM, "r": _ANY_RANGE, "m": _ANY_MULTIRANGE}


class Option(StrEnum):
    """The sorts of operator classes that have options (PostgreSQL's support functions for them)."""

    BLOOM = "bloom"
    MINMAX_MULTI = "minmax_multi"
    SIGNATURES = "signatures"


@cache
def _defaults(method: str) -> Mapping[int, int]:
    """By input type."""
    data = columns("pg_opclass")
    rows = zip(data["oid"], data["opcmethod"], data["opcdefault"], data["opcintype"], strict=True)
    return {intype: oid for oid, of, default, intype in rows if of == ACCESS_METHODS[method] and default}


@cache
def _named(method: str) -> Mapping[str, tuple[int, int]]:
    """Oid and input type by name."""
    data = columns("pg_opclass")
    rows = zip(data["oid"], data["opcmethod"], data["opcname"], data["opcintype"], strict=True)
    return {name: (oid, intype) for oid, of, name, intype in rows if of == ACCESS_METHODS[method]}


def _made(oid: int) -> OperatorClass | None:
    """The operator class of an extension with this oid."""
    of_type = operator_class_called(oid)
    return BY_OID.get(oid) if of_type is None else of_type[1]


def _of_class(oid: int, column: str) -> int:
    data = columns("pg_opclass")
    return int(data[column][data["oid"].index(oid)])


def operator_class_name(oid: int) -> str:
    """The name of an operator class."""
    made = _made(oid)
    if made is not None:
        return made.name
    data = columns("pg_opclass")
    return str(data["opcname"][data["oid"].index(oid)])


def options_of(oid: int) -> Option | None:
    """Which options an operator class has."""
    made = _made(oid)
    if made is not None:
        return Option.SIGNATURES if made.has_signatures else None
    name = operator_class_name(oid)
    found = [each for each in (Option.BLOOM, Option.MINMAX_MULTI) if name.endswith(f"_{each}_ops")]
    if found or (name == "tsvector_ops" and _of_class(oid, "opcmethod") == ACCESS_METHODS["gist"]):
        return found[0] if found else Option.SIGNATURES
    return None


def type_in_index(operator_class_oid: int, type_oid: int, method: str) -> int:
    """The type that an index shows its keys with, which are of `type_oid`: what is held may be something else."""
    if method == "hash":
        return t.INT4
    if not operator_class_oid:
        return type_oid
    made = _made(operator_class_oid)
    if made is not None:
        return type_by_name()[PG_CATALOG_OID, made.key].oid if made.key else type_oid
    key = _of_class(operator_class_oid, "opckeytype")
    if key == _ANY_ELEMENT:
        return element_of(t.under_domain(type_oid))
    return key or type_oid


def returns_values(oid: int, method: str) -> bool:
    """Whether PostgreSQL reads the values of keys from an index that has the operator class."""
    if method != "gist":
        return method == "btree" or (method == "spgist" and operator_class_name(oid) != "poly_ops")
    if _made(oid) is not None:
        return operator_class_name(oid) not in WITHOUT_VALUES
    return _GIST_FETCH in _procedures(oid) or _GIST_COMPRESS not in _procedures(oid)


def orders_by_distance(oid: int) -> bool:
    """Whether an index with the operator class has rows in the order of a distance in PostgreSQL."""
    if _made(oid) is not None:
        return operator_class_name(oid) in WITH_DISTANCES
    operators = columns("pg_amop")
    rows = zip(*(operators[name] for name in ("amopfamily", "amoplefttype", "amoppurpose")), strict=True)
    return (_of_class(oid, "opcfamily"), _of_class(oid, "opcintype"), "o") in rows


def _procedures(oid: int) -> set[int]:
    """The numbers of the support functions that a built-in operator class has for its own type."""
    data = columns("pg_amproc")
    rows = zip(*(data[name] for name in ("amprocfamily", "amproclefttype", "amprocnum")), strict=True)
    own = (_of_class(oid, "opcfamily"), _of_class(oid, "opcintype"))
    return {number for family, left, number in rows if (family, left) == own}


def extension_of(oid: int) -> str | None:
    """The name of the extension that makes the operator class; None for built-in ones."""
    made = operator_class_called(oid)
    return EXTENSION_OF.get(oid) if made is None else made[0]


def input_type(type_oid: int) -> int:
    """What operator classes for values of the type are declared for."""
    if type_oid == t.VARCHAR:
        return t.TEXT
    row = type_row(type_oid)
    if row is None:
        return _RECORD
    return _ANY_ARRAY if row.category == "A" else _OF_KINDS.get(row.type, type_oid)


def _takes(declared: int, type_oid: int) -> bool:
    """Whether an operator class that is declared for one type is one for values of the other."""
    return declared in (type_oid, input_type(type_oid)) or declared in _relabelled(type_oid)


def _relabelled(type_oid: int) -> Sequence[int]:
    """The types that values of this one are also of, without being changed."""
    kind = kind_of(type_oid)
    if kind is not None:
        rules = KINDS[kind].casts.items()
        return [target for (source, target), rule in rules if not source and rule.context == "i" and not rule.function]
    return _relabelled_builtin(type_oid)


@lru_cache(maxsize=1024)
def _relabelled_builtin(type_oid: int) -> Sequence[int]:
    return [
        target
        for (source, target), cast in casts().items()
        if source == type_oid and cast.context == "i" and cast.method == "b"
    ]


def _made_here(method: str) -> Iterator[tuple[str, OperatorClass, int]]:
    """The operator classes of a method that the extensions of the database have made: schema, class, and the type that
    it is declared for."""
    catalog = TYPE_SCOPE.get().catalog
    classes: Sequence[OperatorClass]
    for record in catalog.all():
        if isinstance(record, BaseType):
            classes, own = KINDS[record.kind].operator_classes, row_type_oid(record.oid)
        elif isinstance(record, Extension):
            classes, own = OVER_BUILTIN_TYPES.get(record.name, ()), 0
        else:
            continue
        schema = catalog.get(record.schema)
        if isinstance(schema, Schema):
            yield from ((schema.name, each, own or _declared(each)) for each in classes if each.method == method)


def _declared(made: OperatorClass) -> int:
    return type_by_name()[PG_CATALOG_OID, made.input].oid


def default_operator_class(type_oid: int, method: str = "btree") -> int | None:
    """The operator class that an index has for keys of this type when nothing is said, None when the type has none."""
    type_oid = t.under_domain(type_oid)
    for made in operator_classes(type_oid, method):
        return made.oid
    found = _defaults(method)
    exact = found.get(type_oid) or found.get(input_type(type_oid))
    if exact is not None:
        return exact
    if method not in METHODS:
        # Only the methods that hold nothing have classes of extensions over built-in types.
        added = {declared: each.oid for _, each, declared in _made_here(method) if each.is_default}
        found = {**found, **added}
        if type_oid in found or input_type(type_oid) in found:
            return found.get(type_oid) or found[input_type(type_oid)]
    fitting = [declared for declared in _relabelled(type_oid) if declared in found]
    rows = [(declared, type_row(declared)) for declared in fitting]
    preferred = [declared for declared, row in rows if row is not None and row.ispreferred]
    chosen = preferred or fitting
    return found[chosen[0]] if len(chosen) == 1 else None


def _method_of(oid: int) -> int:
    made = _made(oid)
    return _of_class(oid, "opcmethod") if made is None else ACCESS_METHODS[made.method]


def is_default_class(oid: int, type_oid: int, method: str) -> bool:
    """Whether an index of keys of this type, which has the operator class, has it without being told."""
    made = BY_OID.get(oid)
    if made is not None:
        return made.is_default and made.method == method
    if method == "gist" and _method_of(oid) != ACCESS_METHODS[method]:
        # Exclusion constraints of earlier versions had the operator classes of B-trees.
        return oid == default_operator_class(type_oid)
    return oid == default_operator_class(type_oid, method)


def operator_class(type_oid: int, method: str, given: Sequence[str] = (), *, has_options: bool = False) -> int:
    """The operator class for keys of this type: the one that is `given` by its name, or the default one. Raises 42704,
    42804, 22023, 3F000."""
    if not given:
        default = default_operator_class(type_oid, method)
        if default is None:
            raise UndefinedObject(
                f'data type {format_type(type_oid)} has no default operator class for access method "{method}"',
                hint="You must specify an operator class for the index or define a default operator class for the "
                "data type.",
            )
        return default
    type_oid = t.under_domain(type_oid)
    found = _class_called(given, method, type_oid)
    if not _takes(found[1], type_oid):
        raise DatatypeMismatch(f'operator class "{".".join(given)}" does not accept data type {format_type(type_oid)}')
    if has_options and options_of(found[0]) is None:
        raise InvalidParameterValue(f"operator class {given[-1]} has no options")
    return found[0]


def named_operator_class(given: Sequence[str], method: str = "btree") -> int:
    """The operator class that is `given` by its name, whatever it is for. Raises 42704, 3F000."""
    return _class_called(given, method)[0]


def _class_called(given: Sequence[str], method: str, type_oid: int = 0) -> tuple[int, int]:
    """Oid and declared type of the class, of those that are for `type_oid` if there are several. 42704, 3F000."""
    found = _known(given, method, type_oid)
    if found is None:
        if len(given) > 1 and TYPE_SCOPE.get().catalog.schema(given[-2]) is None:
            raise missing_schema(given[-2])
        raise UndefinedObject(f'operator class "{".".join(given)}" does not exist for access method "{method}"')
    return found


def _known(given: Sequence[str], method: str, type_oid: int = 0) -> tuple[int, int] | None:
    name = given[-1]
    if len(given) == 1 or given[-2] == "pg_catalog":
        builtin = _named(method).get(name)
        if builtin is not None or len(given) > 1:
            return builtin
    path = TYPE_SCOPE.get().search_path
    found = [
        (path.index(schema) if schema in path else len(path), each.oid, declared)
        for schema, each, declared in _made_here(method)
        if each.name == name and (schema == given[-2] if len(given) > 1 else schema in path)
    ]
    # A type of an extension may have been made in two schemas: then it is the one that the key is of.
    found = [each for each in found if each[2] == type_oid] or found
    return min(found)[1:] if found else None


def are_alike(first: int, second: int) -> bool:
    """Whether two operator classes, by their oids, say the same of the same values: are of one family and type."""
    if first == second:
        return True
    if _made(first) is not None or _made(second) is not None:
        return False
    data = columns("pg_opclass")
    places = [data["oid"].index(oid) for oid in (first, second)]
    ours, theirs = [(data["opcfamily"][place], data["opcintype"][place]) for place in places]
    return bool(ours == theirs)


def checked_class(oid: int, type_oid: int) -> int:
    """The operator class `oid` once it is known to be one for keys of this type. Raises 42804."""
    type_oid = t.under_domain(type_oid)
    of_type = operator_class_called(oid)
    added = BY_OID.get(oid)
    if of_type is not None:
        fits = kind_of(type_oid) == of_type[0]
    else:
        fits = _takes(_of_class(oid, "opcintype") if added is None else _declared(added), type_oid)
    if not fits:
        name, shown = operator_class_name(oid), format_type(type_oid)
        raise DatatypeMismatch(f'operator class "{name}" does not accept data type {shown}')
    return oid


def operator_family_name(operator_class_oid: int) -> str:
    """The name of the family that an operator class belongs to."""
    made = _made(operator_class_oid)
    if made is not None:
        return made.name
    families, family = columns("pg_opfamily"), _of_class(operator_class_oid, "opcfamily")
    return str(families["opfname"][families["oid"].index(family)])


def equality(operator_class_oid: int) -> int:
    """The oid of the operator that says for an operator class which keys are equal, 0 where it has none."""
    made = operator_class_called(operator_class_oid)
    if made is not None:
        return made[1].equality
    if operator_class_oid in BY_OID:
        operator_class_oid = _defaults("btree")[input_type(_declared(BY_OID[operator_class_oid]))]
    classes, operators = columns("pg_opclass"), columns("pg_amop")
    place = classes["oid"].index(operator_class_oid)
    family, type_oid = classes["opcfamily"][place], classes["opcintype"][place]
    fields = ("amopfamily", "amoplefttype", "amoprighttype", "amopopr")
    rows = zip(*(operators[field] for field in fields), strict=True)
    return next((int(row[3]) for row in rows if row[:3] == (family, type_oid, type_oid) and row[3] in _equalities()), 0)


@cache
def _equalities() -> frozenset[int]:
    operators = columns("pg_operator")
    named = zip(operators["oid"], operators["oprname"], strict=True)
    return frozenset(oid for oid, name in named if name == "=")


def key_collation(type_oid: int, given: Sequence[str] = ()) -> int:
    """The collation of keys of this type, 0 for types without one. Raises 42704, 0A000, 42804."""
    row = type_row(type_oid)
    own = 0 if row is None else row.collation
    if not given:
        return own
    check_collation(tuple(given), None)
    if not own:
        raise DatatypeMismatch(f"collations are not supported by type {format_type(type_oid)}")
    return collation_oid(given[-1])


def column_collation(column: Column) -> int:
    """The oid of a column's collation, 0 for a type without one."""
    return column.collation or key_collation(column.type_oid)


def collation_name(oid: int) -> str:
    """The name of a collation."""
    data = columns("pg_collation")
    return str(data["collname"][data["oid"].index(oid)])
