"""What COPY says of its columns, its format and its file, checked against the table: the same in both directions."""

from __future__ import annotations

from collections.abc import Sequence

from adapter.access.row_security import affected, is_subject
from adapter.execution.relation_names import find_relation
from adapter.execution.statement import Running
from adapter.lake.file_tables import READING_ROLE
from adapter.results import CopyFormat, CopyProgress
from planner.common_errors import missing_column, repeated_column, unknown_column
from planner.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    InvalidColumnReference,
    InvalidTransactionState,
    ObjectNotInPrerequisiteState,
    SqlError,
    WrongObjectType,
)
from planner.statements import records as st
from storage.catalog.model import CatalogRecord, Column, Relation
from storage.catalog.temporary import is_temporary


def check_file(running: Running, statement: st.Copy) -> None:
    """42501 for who may not use the file of a COPY, and for programs, which nobody may."""
    if statement.filename is None:
        return
    role = (
        "pg_execute_server_program"
        if statement.program
        else READING_ROLE
        if statement.is_from
        else "pg_write_server_files"
    )
    if not running.session.has_privileges_of(role):
        action = "to or from an external program" if statement.program else f"{_way(statement)} a file"
        raise InsufficientPrivilege(
            f"must be superuser or have privileges of the {role} role to COPY {action}",
            hint="Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone.",
        )
    if statement.program:
        raise InsufficientPrivilege(
            f"COPY {_way(statement)} a program is not allowed on this server",
            hint="COPY to stdout or from stdin, with the program at the client's end.",
        )


def _way(statement: st.Copy) -> str:
    return "from" if statement.is_from else "to"


def copied_into(running: Running, statement: st.Copy) -> tuple[Relation, list[Column]]:
    """The table and the columns that a COPY FROM fills. 42P01, 25006, 42809, 42703, 42501 and what `copy_columns`
    raises."""
    assert statement.table is not None
    catalog = running.transaction.catalog
    relation = find_relation(running, catalog, statement.table)
    if not is_temporary(relation.oid):
        running.transaction.check_writable("COPY FROM")
    if relation.foreign is not None:
        raise FeatureNotSupported(f'cannot insert into foreign table "{relation.name}"')
    if relation.kind == "m":
        raise WrongObjectType(f'cannot copy to materialized view "{relation.name}"')
    if relation.kind != "r":
        raise WrongObjectType(
            f'cannot copy to view "{relation.name}"',
            hint="To enable copying to a view, provide an INSTEAD OF INSERT trigger.",
        )
    columns = copy_columns(relation, statement.columns)
    rights = running.session.rights(catalog)
    rights.require_columns(relation.oid, "a", [column.attnum for column in columns])
    role = running.session.values.identity.current
    if is_subject(catalog, relation, role):
        if running.session.values.flat["row_security"] != "on":
            raise affected(catalog, relation, role)
        raise FeatureNotSupported(
            "COPY FROM not supported with row-level security", hint="Use INSERT statements instead."
        )
    return relation, columns


def copy_columns(relation: Relation, names: Sequence[str]) -> list[Column]:
    """The columns of a COPY of `relation`: those named, or all that are not generated. 42703, 42701, 42P10."""
    if not names:
        return [column for column in relation.live_columns() if not column.generated]
    columns: list[Column] = []
    for name in names:
        column = relation.column(name)
        if column is None:
            raise missing_column(relation.name, name)
        if column.generated:
            raise InvalidColumnReference(
                f'column "{name}" is a generated column', detail="Generated columns cannot be used in COPY."
            )
        if column in columns:
            raise repeated_column(name)
        columns.append(column)
    return columns


def copy_format(options: st.CopyOptions, names: Sequence[str], relation: Relation | None) -> CopyFormat:
    """The options with column names as positions; `relation` is the table copied, None for a query. 42703, 42P10."""

    def positions(option: str, wanted: Sequence[str] | None) -> tuple[int, ...]:
        if wanted is None:
            return tuple(range(len(names)))
        for name in wanted:
            if name not in names:
                if relation is None:
                    raise unknown_column(name)
                if relation.column(name) is None:
                    raise missing_column(relation.name, name)
                raise InvalidColumnReference(f'{option} column "{name}" not referenced by COPY')
        return tuple(names.index(name) for name in wanted)

    return CopyFormat(
        format=options.format,
        delimiter=options.delimiter,
        null=options.null,
        header=options.header,
        header_match=options.header_match,
        quote=options.quote,
        escape=options.escape,
        force_quote=positions("FORCE_QUOTE", options.force_quote),
        force_not_null=positions("FORCE_NOT_NULL", options.force_not_null),
        force_null=positions("FORCE_NULL", options.force_null),
        encoding=options.encoding,
        default=options.default,
        ignores_errors=options.ignores_errors,
    )


def begin_progress(running: Running, statement: st.Copy, relation: Relation | None) -> CopyProgress:
    """Let others see how far the COPY is (pg_stat_progress_copy)."""
    progress = CopyProgress(
        command="COPY FROM" if statement.is_from else "COPY TO",
        type="PIPE" if statement.filename is None else "FILE",
        relation=0 if relation is None else relation.oid,
        started_at=running.started_at,
    )
    running.session.copying = progress
    return progress


def copied_from(running: Running, statement: st.Copy) -> Relation | None:
    """The table that a COPY TO names; None for a query."""
    if statement.table is None:
        return None
    return find_relation(running, running.transaction.catalog, statement.table)


def unfreezable(running: Running, relation: Relation) -> SqlError | None:
    """Why COPY ... WITH (FREEZE) is refused: 25000 with a cursor open, 55000 for a table that was neither made nor
    emptied since the last open savepoint, or the transaction's beginning."""
    if any(portal.parsed is not running.parsed for portal in running.session.portals.by_name.values()):
        return InvalidTransactionState("cannot perform COPY FREEZE because of prior transaction activity")
    known = _found(running, relation)
    if not isinstance(known, Relation) or known.shard != relation.shard:
        return None
    return ObjectNotInPrerequisiteState(
        "cannot perform COPY FREEZE because the table was not created or truncated in the current subtransaction"
    )


def _found(running: Running, relation: Relation) -> CatalogRecord | None:
    """The record of the table as the last open savepoint, or the transaction, found it."""
    transaction = running.transaction
    space = transaction.temporary
    permanent, temporary = transaction.pending.base, None if space is None else space.objects
    if transaction.savepoints:
        then = transaction.savepoints[-1].pending
        permanent, temporary = then.catalog or permanent, then.temporary
    if is_temporary(relation.schema):
        return None if temporary is None else temporary.records.get(relation.oid)
    return (permanent or transaction.catalog).get(relation.oid)
