"""ALTER COLUMN ... SET (...), RESET (...) and SET STATISTICS: kept, shown, and followed by ANALYZE."""

from __future__ import annotations

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, require_column, with_column
from adapter.definitions.common.table_options import as_reloptions, with_column_options
from adapter.execution.relation_names import kind_of, plural
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.definitions.columns.storage import check_compression, check_storage
from planner.errors import FeatureNotSupported, InvalidParameterValue, WrongObjectType
from planner.statements import records as st
from storage.catalog.model import Relation
from storage.catalog.record import COLUMN_OPTIONS_FORMAT

MAX_TARGET = 10_000
"""PostgreSQL's largest statistics target."""


def check_kept_how(relation: Relation, action: st.SetStorageOptions) -> None:
    """SET STORAGE and SET COMPRESSION, which have no effect. Raises 42809, 42703, 22023, 0A000."""
    ((what, value),) = action.options
    if relation.kind == "v":
        raise WrongObjectType(
            f'ALTER action ALTER COLUMN ... SET {what.upper()} cannot be performed on relation "{relation.name}"',
            detail=f"This operation is not supported for {plural(kind_of(relation))}.",
        )
    column = require_column(relation, action.column)
    check = check_storage if what == "storage" else check_compression
    check(column.type_oid, value)


async def set_column_options(running: Running, relation: Relation, action: st.SetStorageOptions) -> None:
    """What `action` says of a column of a table or materialized view. Raises 42809, 42703, 0A000, 22023, and 55000
    while servers of an earlier version may be at work, which cannot read it."""
    if relation.kind == "v":
        word = "SET STATISTICS" if action.target is not None else "RESET" if action.reset else "SET"
        raise WrongObjectType(
            f'ALTER action ALTER COLUMN ... {word} cannot be performed on relation "{relation.name}"',
            detail=f"This operation is not supported for {plural(kind_of(relation))}.",
        )
    target = None if action.target is None else checked_target(running, action.target)
    if target is not None and not action.column:
        raise FeatureNotSupported("cannot refer to non-index column by number")
    column = require_column(relation, action.column)
    if target is None:
        options = as_reloptions(with_column_options(column.options, action.options, reset=action.reset))
        changed = replace(column, options=options)
    else:
        changed = replace(column, statistics=target)
    if changed != column:
        if changed.options or changed.statistics != -1:
            await running.services.env.formats.require(COLUMN_OPTIONS_FORMAT)
        change(running, removed=[relation], added=[with_column(relation, changed)])


def checked_target(running: Running, target: int) -> int:
    """The statistics target that is kept where `target` is asked for. Raises 22023; warns of one that is too high."""
    if target < -1:
        raise InvalidParameterValue(f"statistics target {target} is too low")
    if target > MAX_TARGET:
        running.session.notice(
            Notice(severity="WARNING", sqlstate="22023", message=f"lowering statistics target to {MAX_TARGET}")
        )
    return min(target, MAX_TARGET)
