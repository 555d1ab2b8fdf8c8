"""Operator classes and collations of index keys: which one a type has by default, and those that a statement names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from planner.catalog_data.content import columns
from planner.errors import DatatypeMismatch, InvalidParameterValue, UndefinedObject
from planner.types import types as t
from planner.types.base_types import kind_of, operator_class_called, operator_classes
from planner.types.ranges import range_or_multirange
from planner.types.type_names import check_collation, collation_oid, format_type, type_row
from storage.catalog.model import Column

DEFAULT_COLLATION = 100
"""The oid of the collation "default"."""

METHODS = {"btree": 403, "hash": 405}
"""The access methods that indexes have here, with their oids."""

ACCESS_METHODS = METHODS | {"gist": 783}
"""Those that indexes may be said to have: exclusion constraints name gist, for which the operator classes of B-trees do
as PostgreSQL's btree_gist has them."""

_EQUALITY = {ACCESS_METHODS["btree"]: 3, ACCESS_METHODS["hash"]: 1, ACCESS_METHODS["gist"]: 18}
"""The strategy number of equality; of GiST that of ranges."""

_ANY_ARRAY, _RECORD, _ANY_ENUM, _ANY_RANGE, _ANY_MULTIRANGE = 2277, 2249, 3500, 3831, 4537
_OF_KINDS = {"c": _RECORD, "e": _ANY_ENUM, "r": _ANY_RANGE, "m": _ANY_MULTIRANGE}


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


def operator_class_name(oid: int) -> str:
    """The name of an operator class."""
    made = operator_class_called(oid)
    if made is not None:
        return made[1].name
    data = columns("pg_opclass")
    return str(data["opcname"][data["oid"].index(oid)])


def input_type(type_oid: int) -> int:
    """What operator classes for values of the type are declared for."""
    if type_oid == t.VARCHAR:
        return t.TEXT
    row = type_row(type_oid)
    if row is None:
        return _RECORD
    return _ANY_ARRAY if row.category == "A" else _OF_KINDS.get(row.type, type_oid)


def default_operator_class(type_oid: int, method: str = "btree") -> int | None:
    """The operator class that an index has for keys of this type when nothing is said, None when the type has none."""
    type_oid = t.under_domain(type_oid)
    if method == "gist" and range_or_multirange(type_oid) is not None:
        return _defaults("gist")[input_type(type_oid)]
    method = "btree" if method == "gist" else method
    for made in operator_classes(type_oid, method):
        return made.oid
    found = _defaults(method)
    return found.get(type_oid) or found.get(input_type(type_oid))


def operator_class(type_oid: int, method: str, given: Sequence[str] = (), *, has_options: bool = False) -> int:
    """The operator class for keys of this type: the one that is `given` by its name, or the default one. Raises 42704,
    42804, 22023."""
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
    name = ".".join(given)
    for made in operator_classes(type_oid, method):
        if made.name == given[-1]:
            return made.oid
    own = method != "gist" or range_or_multirange(type_oid) is not None
    known = _named(method if own else "btree")
    found = known.get(given[-1]) if len(given) == 1 or given[-2] == "pg_catalog" else None
    if found is None:
        raise UndefinedObject(f'operator class "{name}" does not exist for access method "{method}"')
    if found[1] not in (type_oid, input_type(type_oid)):
        raise DatatypeMismatch(f'operator class "{name}" does not accept data type {format_type(type_oid)}')
    if has_options:
        raise InvalidParameterValue(f"operator class {given[-1]} has no options")
    return found[0]


def named_operator_class(given: Sequence[str], method: str = "btree") -> int:
    """The operator class that is `given` by its name, whatever it is for. Raises 42704."""
    found = _named(method).get(given[-1]) if len(given) == 1 or given[-2] == "pg_catalog" else None
    if found is None:
        raise UndefinedObject(f'operator class "{".".join(given)}" does not exist for access method "{method}"')
    return found[0]


def are_alike(first: int, second: int) -> bool:
    """Whether two operator classes, by their oids, say the same of the same values: are of one family and type."""
    if first == second:
        return True
    if operator_class_called(first) is not None or operator_class_called(second) is not None:
        return False
    data = columns("pg_opclass")
    places = [data["oid"].index(oid) for oid in (first, second)]
    ours, theirs = [(data["opcfamily"][place], data["opcintype"][place]) for place in places]
    return bool(ours == theirs)


def accepts(oid: int, type_oid: int) -> bool:
    """Whether the operator class is one for keys of this type."""
    type_oid = t.under_domain(type_oid)
    made = operator_class_called(oid)
    if made is not None:
        return kind_of(type_oid) == made[0]
    data = columns("pg_opclass")
    return data["opcintype"][data["oid"].index(oid)] in (type_oid, input_type(type_oid))


def operator_family_name(operator_class_oid: int) -> str:
    """The name of the family that an operator class belongs to."""
    made = operator_class_called(operator_class_oid)
    if made is not None:
        return made[1].name
    classes, families = columns("pg_opclass"), columns("pg_opfamily")
    family = classes["opcfamily"][classes["oid"].index(operator_class_oid)]
    return str(families["opfname"][families["oid"].index(family)])


def equality(operator_class_oid: int) -> int:
    """The oid of the operator that says for an operator class which keys are equal."""
    made = operator_class_called(operator_class_oid)
    if made is not None:
        return made[1].equality
    classes, operators = columns("pg_opclass"), columns("pg_amop")
    place = classes["oid"].index(operator_class_oid)
    family, type_oid = classes["opcfamily"][place], classes["opcintype"][place]
    strategy = _EQUALITY[classes["opcmethod"][place]]
    fields = ("amopfamily", "amoplefttype", "amoprighttype", "amopstrategy")
    rows = zip(*(operators[field] for field in fields), operators["amopopr"], strict=True)
    return next(int(row[4]) for row in rows if row[:4] == (family, type_oid, type_oid, strategy))


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
