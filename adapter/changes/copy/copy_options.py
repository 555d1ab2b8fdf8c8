"""What COPY says of its columns, its format and its file, checked against the table: the same in both directions."""

from __future__ import annotations

from collections.abc import Sequence

from adapter.results import CopyFormat
from planner.common_errors import missing_column, repeated_column, unknown_column
from planner.errors import InsufficientPrivilege, InvalidColumnReference
from planner.statements import records as st
from storage.catalog.model import Column, Relation


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

    def positions(option: str, wanted: Sequence[str]) -> tuple[int, ...]:
        for name in wanted:
            if name not in names:
                if relation is None:
                    raise unknown_column(name)
                if relation.column(name) is None:
                    raise missing_column(relation.name, name)
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
