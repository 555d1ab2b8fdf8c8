"""COPY ... TO STDOUT: a query whose rows the frontend formats and streams."""

from __future__ import annotations

from collections.abc import Sequence

from adapter.changes.modify_table import run_change
from adapter.execution.relation_names import find_relation
from adapter.execution.statement import Running
from adapter.plans.plan_cache import Plan
from adapter.queries.read import run_query
from adapter.results import ColumnDescription, CopyFormat, CopyOut
from planner.errors import (
    DuplicateColumn,
    FeatureNotSupported,
    InsufficientPrivilege,
    InvalidColumnReference,
    UndefinedColumn,
    WrongObjectType,
)
from planner.ir import nodes as ir
from planner.statements import records as st
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import split_and_parse
from storage.catalog.model import CatalogSnapshot, Column, Relation, Schema


def refuse_files(statement: st.Copy) -> None:
    """42501 for COPY from or to a file or program of the server."""
    if statement.filename is None:
        return
    role = (
        "pg_execute_server_program"
        if statement.program
        else "pg_read_server_files"
        if statement.is_from
        else "pg_write_server_files"
    )
    action = (
        "to or from an external program" if statement.program else ("from" if statement.is_from else "to") + " a file"
    )
    raise InsufficientPrivilege(
        f"must be superuser or have privileges of the {role} role to COPY {action}",
        hint="Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone.",
    )


def copy_columns(relation: Relation, names: Sequence[str]) -> list[Column]:
    """The columns of a COPY of `relation`: those named, or all. 42703, 42701."""
    if not names:
        return list(relation.live_columns())
    columns: list[Column] = []
    for name in names:
        column = relation.column(name)
        if column is None:
            raise UndefinedColumn(f'column "{name}" of relation "{relation.name}" does not exist')
        if column in columns:
            raise DuplicateColumn(f'column "{name}" specified more than once')
        columns.append(column)
    return columns


def copy_format(options: st.CopyOptions, names: Sequence[str], relation: Relation | None) -> CopyFormat:
    """The options with column names as positions; `relation` is the table copied, None for a query. 42703, 42P10."""

    def positions(option: str, wanted: Sequence[str]) -> tuple[int, ...]:
        for name in wanted:
            if name not in names:
                if relation is None:
                    raise UndefinedColumn(f'column "{name}" does not exist')
                if relation.column(name) is None:
                    raise UndefinedColumn(f'column "{name}" of relation "{relation.name}" does not exist')
                raise InvalidColumnReference(f'{option} column "{name}" not referenced by COPY')
        return tuple(names.index(name) for name in wanted)

    quoted = tuple(range(len(names))) if options.force_quote is None else positions("FORCE_QUOTE", options.force_quote)
    return CopyFormat(
        format=options.format,
        delimiter=options.delimiter,
        null=options.null,
        header=options.header,
        header_match=options.header_match,
        quote=options.quote,
        escape=options.escape,
        force_quote=quoted,
        force_not_null=positions("FORCE_NOT_NULL", options.force_not_null),
        force_null=positions("FORCE_NULL", options.force_null),
    )


async def run_copy_out(running: Running, statement: st.Copy) -> CopyOut:
    """COPY table TO STDOUT and COPY (query) TO STDOUT."""
    refuse_files(statement)
    catalog = running.transaction.statement_catalog
    plan = _plan(running, catalog, statement)
    if plan.columns is None:
        raise FeatureNotSupported("COPY query must have a RETURNING clause")
    names = [column.name for column in plan.columns]
    relation = None if statement.table is None else find_relation(running, catalog, statement.table)
    format_ = copy_format(statement.options, names, relation)
    outcome = await (
        run_query(running, plan) if isinstance(plan.statement, ir.BoundQuery) else run_change(running, plan)
    )
    columns: tuple[ColumnDescription, ...] = plan.columns
    batches = getattr(outcome, "batches", None)
    assert batches is not None
    return CopyOut(columns=columns, format=format_, batches=batches)


def _plan(running: Running, catalog: CatalogSnapshot, statement: st.Copy) -> Plan:
    if statement.query is not None:
        return running.session.plan(statement.query, catalog)
    assert statement.table is not None
    relation = find_relation(running, catalog, statement.table)
    if relation.kind != "r":
        raise WrongObjectType(f'cannot copy from view "{relation.name}"', hint="Try the COPY (SELECT ...) TO variant.")
    columns = copy_columns(relation, statement.columns)
    schema = catalog.get(relation.schema)
    assert isinstance(schema, Schema)
    names = ", ".join(quote_identifier(column.name) for column in columns)
    text = f"SELECT {names} FROM {quote_identifier(schema.name)}.{quote_identifier(relation.name)}"
    return running.session.plan(split_and_parse(text)[0], catalog)
