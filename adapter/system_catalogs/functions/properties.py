"""What indexes, access methods, sequences and settings are, one property or row at a time (PostgreSQL, chapter
"System Information Functions")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from adapter.system_catalogs.functions.contexts import Entered
from planner.catalog_data import content as catalog_data
from planner.errors import (
    InvalidParameterValue,
    NumericValueOutOfRange,
    UndefinedObject,
    UndefinedTable,
    WrongObjectType,
)
from planner.types.operator_classes import orders_by_distance, returns_values
from planner.types.table_indexes import DESCENDING, METHODS, NULLS_FIRST, constraint_of_index, find_index
from storage.catalog.model import Relation
from storage.catalog.model import Sequence as SequenceRecord

_METHOD_NAMES = frozenset({"can_order", "can_unique", "can_multi_col", "can_exclude", "can_include"})
_INDEX_PROPERTIES: Mapping[str, frozenset[str]] = {
    "btree": frozenset({"clusterable", "index_scan", "bitmap_scan", "backward_scan"}),
    "hash": frozenset({"index_scan", "bitmap_scan", "backward_scan"}),
    "gist": frozenset({"clusterable", "index_scan", "bitmap_scan"}),
    "spgist": frozenset({"index_scan", "bitmap_scan"}),
    "gin": frozenset({"bitmap_scan"}),
    "brin": frozenset({"bitmap_scan"}),
}
_INDEX_NAMES = frozenset({"clusterable", "index_scan", "bitmap_scan", "backward_scan"})


_OF_KEYS = frozenset({"asc", "desc", "nulls_first", "nulls_last", "search_array", "search_nulls"})
"""The properties that a column which is only included has not."""


def method_property(context: Entered, method: int, name: str) -> bool | None:
    """pg_indexam_has_property: None for what is no index access method, and for a name of no property of one."""
    data = catalog_data.columns("pg_am")
    if method not in data["oid"] or name.lower() not in _METHOD_NAMES:
        return None
    found = METHODS.get(data["amname"][data["oid"].index(method)])
    return None if found is None else name.lower() in found


def _system_index(index: int) -> dict[str, Any] | None:
    data = catalog_data.columns("pg_index")
    if index not in data["indexrelid"]:
        return None
    place = data["indexrelid"].index(index)
    return {name: values[place] for name, values in data.items()}


def index_property(context: Entered, index: int, name: str) -> bool | None:
    """pg_index_has_property: None for what is no index, and for a name of no property of an index."""
    record = find_index(context.objects.snapshot, index)
    if record is None and _system_index(index) is None:
        return None
    if name.lower() not in _INDEX_NAMES:
        return None
    return name.lower() in _INDEX_PROPERTIES["btree" if record is None else record.method]


def index_upkeep(context: Entered, index: int, method: str, block: int, last: int) -> int:
    """What functions that tend an index of `method` have done to the part of it that `block` names: nothing is left to
    do. Raises 42809 for what is no such index, 22003 for a block beyond the `last` that there can be."""
    if not 0 <= block <= last:
        raise NumericValueOutOfRange(f"block number out of range: {block}")
    record = find_index(context.objects.snapshot, index)
    if record is not None and record.method == method:
        return 0
    if record is not None:
        name = record.name
    else:
        found = context.objects.snapshot.get(index)
        data = catalog_data.columns("pg_class")
        if isinstance(found, Relation | SequenceRecord):
            name = found.name
        elif index in data["oid"]:
            name = data["relname"][data["oid"].index(index)]
        else:
            raise UndefinedTable(f"could not open relation with OID {index}")
    is_index = record is not None or _system_index(index) is not None
    raise WrongObjectType(f'"{name}" is not {f"a {method.upper()}" if is_index else "an"} index')


def index_column_property(context: Entered, index: int, column: int, name: str) -> bool | None:
    """pg_index_column_has_property: None for a column that the index has not, and for a name of no property of one."""
    record = find_index(context.objects.snapshot, index)
    included, method = 0, "btree"
    if record is not None:
        options: Sequence[int] = record.options
        included, method = len(record.include), record.method
    else:
        of_system = _system_index(index)
        if of_system is None:
            return None
        options = of_system["indoption"]
    if not 1 <= column <= len(options) + included:
        return None
    is_key = column <= len(options)
    option = options[column - 1] if is_key else 0
    sorts = is_key and method == "btree"
    wanted = name.lower()
    if wanted == "returnable" and (method == "btree" or (method == "spgist" and not is_key)):
        return True
    if wanted in ("returnable", "distance_orderable"):
        if method not in ("gist", "spgist"):
            return False
        # PostgreSQL asks the operator class, which a column that is only included has not.
        if record is None or not is_key:
            return None
        operator_class = record.operator_classes[column - 1]
        returns = wanted == "returnable"
        return returns_values(operator_class, method) if returns else orders_by_distance(operator_class)
    if not is_key and wanted in _OF_KEYS:
        return None
    return {
        "asc": sorts and not option & DESCENDING,
        "desc": sorts and bool(option & DESCENDING),
        "nulls_first": sorts and bool(option & NULLS_FIRST),
        "nulls_last": sorts and not option & NULLS_FIRST,
        "orderable": sorts,
        "search_array": sorts,
        "search_nulls": sorts or (is_key and method in ("gist", "spgist", "brin")),
    }.get(wanted)


def replica_identity_index(context: Entered, relation: int) -> int | None:
    """pg_get_replica_identity_index: the index that was chosen, the primary key's by default; None without one.

    Raises 42P01 for an oid that no relation has.
    """
    if context.objects.relation(relation) is None:
        raise UndefinedTable(f"could not open relation with OID {relation}")
    snapshot = context.objects.snapshot
    record = snapshot.get(relation)
    if not isinstance(record, Relation) or record.marks.identity not in "di":
        return None
    if record.marks.identity == "i":
        return record.marks.identity_index
    for index, table in context.objects.indexes:
        constraint = constraint_of_index(snapshot, index.oid) if table.oid == relation else None
        if constraint is not None and constraint.kind == "p":
            return None if constraint.deferrable else index.oid
    return None


def _sequence(context: Entered, oid: int) -> SequenceRecord:
    """The sequence with this oid. Raises 42P01 where there is no relation, 42809 where it is none."""
    record = context.objects.snapshot.get(oid)
    if isinstance(record, SequenceRecord):
        return record
    named = context.objects.relation(oid)
    if named is None:
        raise UndefinedTable(f"relation with OID {oid} does not exist")
    raise WrongObjectType(f'"{named.name}" is not a sequence')


def sequence_parameters(context: Entered, oid: int) -> dict[str, Any]:
    """pg_sequence_parameters. Raises 42P01 where there is no relation, 42809 where it is no sequence."""
    found = _sequence(context, oid)
    return {
        "start_value": found.start,
        "minimum_value": found.minimum,
        "maximum_value": found.maximum,
        "increment": found.increment,
        "cycle_option": found.cycle,
        "cache_size": found.cache,
        "data_type": found.type_oid,
    }


@cache
def _flags() -> Mapping[str, Sequence[str]]:
    data = catalog_data.columns("setting_flags")
    return {name.lower(): flags for name, flags in zip(data["name"], data["flags"], strict=True)}


def setting_flags(context: Entered, name: str) -> list[str] | None:
    """pg_settings_get_flags; None for a name of no setting."""
    if context.facts is None or context.facts.setting(name) is None:
        return None
    return list(_flags().get(name.lower(), ()))


_LOG_FORMATS = ("stderr", "csvlog", "jsonlog")


def current_log_file(context: Entered, format: str) -> None:
    """pg_current_logfile: none, as logs go to the error output. Raises 22023 for a format that PostgreSQL has not."""
    if format not in _LOG_FORMATS:
        raise InvalidParameterValue(
            f'log format "{format}" is not supported',
            hint='The supported log formats are "stderr", "csvlog", and "jsonlog".',
        )


def collation_version(context: Entered, oid: int) -> str | None:
    """pg_collation_actual_version: none of the collations here has a version. Raises 42704 for an unknown one."""
    if oid not in catalog_data.columns("pg_collation")["oid"]:
        raise UndefinedObject(f"collation with OID {oid} does not exist")
    return None
