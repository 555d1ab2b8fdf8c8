"""Stored statements (queries of views, conditions of policies, bodies of functions), bound with notes of what their
parts mean.

A reference to a column is noted with the item that it names, a relation in FROM with the item that it became; what is
noted are parts of the parse tree, so who wants other names writes them there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from planner.errors import InternalError
from planner.ir.rewrite import column_ids
from planner.queries.changes.changes import CHANGES, bind_change
from planner.queries.grammar import new_statement
from planner.resolution.query import bind_query
from planner.resolution.statement import (
    BindContext,
    ChangeNotes,
    DefinitionNotes,
    Level,
    NsItem,
    QueryNotes,
    Statement,
    WithChanges,
)
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Parsed, Tree, split_and_parse
from storage.catalog.model import CatalogSnapshot, Relation, Schema

ColumnUse: TypeAlias = tuple[int, int]
"""A column: its relation's oid and its attnum."""


class Noted:
    """A stored statement, bound. Raises what binding raises."""

    def __init__(self, parsed: Parsed, context: BindContext) -> None:
        self.parsed = parsed
        self.statement: Statement = new_statement(parsed, context)
        self.definition = self.statement.definition = DefinitionNotes()
        self.notes = self.statement.notes = QueryNotes()
        self.statement.written, self.statement.outlined = {}, True
        self.statement.required.stored = True
        self.statement.with_changes = WithChanges(bind=bind_change)
        level = Level(self.statement, None)
        if parsed.kind == "select_stmt":
            bind_query(level, parsed.tree)
        elif parsed.kind in CHANGES:
            CHANGES[parsed.kind](level, parsed.tree)

    def relations_in_from(self) -> Iterator[tuple[Tree, NsItem]]:
        """The relations in FROM (RangeVar), each with its item."""
        return ((tree, item) for tree, item in self.notes.items.values() if tree.DESCRIPTOR.name == "RangeVar")

    def relations(self) -> frozenset[int]:
        """The relations that it names."""
        return frozenset(each.oid for each in self.statement.required.all() if each.kind == "r" and each.role is None)

    def columns(self) -> frozenset[ColumnUse]:
        """The columns of relations that it names; none for a row as a whole."""
        origins = self.statement.origins
        known: dict[int, ColumnUse] = {}
        for _, item in self.relations_in_from():
            for column in item.columns:
                origin = None if column.field is None else origins.get(column.field.id)
                if item.relation_oid and column.field is not None and origin is not None:
                    known[column.field.id] = (item.relation_oid, origin.attnum)
        found = {
            known[id]
            for _, condition, using in self.notes.joins.values()
            if using
            for id in column_ids(condition)
            if id in known
        }
        for tree, item in self.definition.named:
            for column in item.by_name.get(tree.fields[len(tree.fields) - 1].string.sval, ()):
                origin = None if column.field is None else origins.get(column.field.id)
                if item.relation_oid and origin is not None:
                    found.add((item.relation_oid, origin.attnum))
        for each in self.statement.required.all():
            # What a view that is changed stands for is noted with its owner.
            if each.kind == "r" and each.role is None:
                found.update((each.oid, attnum) for attnum in (*each.inserted, *each.updated))
        return frozenset(found)


def condition_query(catalog: CatalogSnapshot, relation: int, text: str) -> Parsed:
    """The query of the rows of a table for which the condition `text` of a policy is true."""
    table = catalog.get(relation)
    schema = catalog.get(table.schema) if isinstance(table, Relation) else None
    if not isinstance(table, Relation) or not isinstance(schema, Schema):
        raise InternalError("a policy without a table")
    name = f"{quote_identifier(schema.name)}.{quote_identifier(table.name)}"
    return split_and_parse(f"SELECT 1 FROM {name} WHERE {text}")[0]


def given_columns(tree: Tree, noted: ChangeNotes) -> list[tuple[str, Tree | None]]:
    """The columns that an INSERT gives values to, one for each value."""
    if noted.query is None:
        width = max(map(len, noted.rows), default=0)
    else:
        select = tree.select_stmt.select_stmt
        width = len(noted.query[0].types if noted.query[1] is select else select.values_lists[0].list.items)
    return noted.columns[:width]


def write_out_columns(notes: QueryNotes) -> None:
    """Lists the columns of each INSERT, also that of MERGE, that lists none."""
    for noted in notes.changes.values():
        tree = noted.tree
        if tree.DESCRIPTOR.name == "InsertStmt":
            columns, listed = given_columns(tree, noted), tree.cols
        elif tree.DESCRIPTOR.name == "MergeWhenClause" and tree.command_type == pb.CMD_INSERT:
            columns, listed = noted.columns[: len(noted.rows[0])], tree.target_list
        else:
            continue
        if not listed:
            for name, _ in columns:
                listed.add().res_target.name = name
