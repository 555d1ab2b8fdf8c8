"""Set-returning functions, in FROM and in the select list.

A set-returning function's form gives a list: of values, or of structs (fields by column name) where it
has several columns.
Lists are unnested side by side, padded with NULL, as PostgreSQL does with ROWS FROM and with several functions in one
select list.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.functions.forms.form import CallSite
from planner.functions.registry import form, output_columns
from planner.ir import nodes as ir
from planner.lowering.context import Context
from planner.lowering.protocols import RelationLowering
from planner.lowering.scalars import Scalars
from planner.lowering.select import Select
from planner.lowering.templates import fill
from planner.types.signature import Kind


class FunctionsInFrom:
    """Prints FunctionScan and ProjectSet."""

    def __init__(self, ctx: Context, scalars: Scalars) -> None:
        self.ctx = ctx
        self.scalars = scalars

    def _site(self, call: ir.FunctionCall) -> CallSite:
        return CallSite(
            engine=self.ctx.engine,
            arg_types=tuple([arg.type for arg in call.args]),
            type=call.fields[0].type,
            constants=tuple([self.scalars.constant(arg) for arg in call.args]),
            settings=self.ctx.settings,
        )

    def _list(self, call: ir.FunctionCall) -> str:
        """The list that a function returns; a function that is not set-returning gives a list of one."""
        args = [self.scalars.sql(arg) for arg in call.args]
        site = self._site(call)
        sql = self.scalars.apply(call.signature, args, site)
        if call.signature.kind is not Kind.SET_RETURNING:
            return self.ctx.dialect.array([sql])
        return sql

    def scan(self, rel: ir.FunctionScan) -> Select:
        """Functions in FROM."""
        if len(rel.functions) == 1 and rel.ordinality is None:
            return self._single(rel.functions[0])
        return self._zipped(rel)

    def _single(self, call: ir.FunctionCall) -> Select:
        if call.signature.kind is not Kind.SET_RETURNING:
            sql = self.scalars.apply(call.signature, [self.scalars.sql(arg) for arg in call.args], self._site(call))
            if len(call.fields) == 1:
                return Select(self.ctx, {call.fields[0].id: sql})
            alias = self.ctx.alias()
            return Select(self.ctx, self._members(call, f"{alias}.c1"), f"(SELECT {sql} AS c1) AS {alias}")
        alias = self.ctx.alias()
        table = self._table(call)
        if table is not None:
            field = call.fields[0]
            return Select(
                self.ctx, {field.id: self.ctx.dialect.cast(f"{alias}.c1", field.type)}, f"{table} AS {alias}(c1)"
            )
        sql = self._list(call)
        if self.ctx.local:
            source = f"unnest({sql}) AS {alias}(c1)"
        else:
            source = (
                f"explode({sql}) AS {alias}(c1)"
                if len(call.fields) == 1
                else f"(SELECT explode({sql}) AS c1) AS {alias}"
            )
        return Select(self.ctx, self._members(call, f"{alias}.c1"), source)

    def _table(self, call: ir.FunctionCall) -> str | None:
        """The engine's table function, where it has one that streams and the arguments are constants."""
        given = form(call.signature)
        chosen = None if given is None else given.local_table if self.ctx.local else given.spark_table
        if chosen is None:
            return None
        site = self._site(call)
        if not all(isinstance(value, int) for value in site.constants):
            return None
        template = chosen(site) if callable(chosen) else chosen
        return None if template is None else fill(self.ctx, template, [self.scalars.sql(arg) for arg in call.args])

    def _members(self, call: ir.FunctionCall, sql: str) -> dict[int, str]:
        if len(call.fields) == 1:
            return {call.fields[0].id: sql}
        columns = output_columns(call.signature)
        assert columns is not None
        quote = '"' if self.ctx.local else "`"
        return {field.id: f"{sql}.{quote}{name}{quote}" for field, (name, _) in zip(call.fields, columns, strict=True)}

    def _zipped(self, rel: ir.FunctionScan) -> Select:
        lists = [self._list(call) for call in rel.functions]
        alias = self.ctx.alias()
        columns: dict[int, str] = {}
        if self.ctx.local:
            items = [f"unnest({sql}) AS l{index}" for index, sql in enumerate(lists)]
            if rel.ordinality is not None:
                length = ", ".join([f"coalesce(len({sql}), 0)" for sql in lists])
                longest = f"greatest({length})" if len(lists) > 1 else length
                items.append(f"unnest(range(1, {longest} + 1)) AS o")
            source = f"(SELECT {', '.join(items)}) AS {alias}"
            for index, call in enumerate(rel.functions):
                columns.update(self._members(call, f"{alias}.l{index}"))
            if rel.ordinality is not None:
                columns[rel.ordinality] = f"{alias}.o"
            return Select(self.ctx, columns, source)
        arrays = ", ".join([f"coalesce({sql}, array())" for sql in lists])
        source = f"(SELECT posexplode(arrays_zip({arrays})) AS (p, z)) AS {alias}"
        for index, call in enumerate(rel.functions):
            columns.update(self._members(call, f"{alias}.z.`{index}`"))
        if rel.ordinality is not None:
            columns[rel.ordinality] = f"CAST({alias}.p + 1 AS BIGINT)"
        return Select(self.ctx, columns, source)

    def project_set(self, relations: RelationLowering, rel: ir.ProjectSet) -> Select:
        """Set-returning functions of a select list."""
        if isinstance(rel.input, ir.OneRow) and len(rel.functions) == 1 and self._table(rel.functions[0]) is not None:
            return self._single(rel.functions[0])
        select = relations.build(rel.input)
        if not select.plain() or not relations.inlinable(
            select, tuple(arg for call in rel.functions for arg in call.args)
        ):
            select = relations.wrap(select)
        lists = [self._list(call) for call in rel.functions]
        ids = [call.fields[0].id for call in rel.functions]
        if self.ctx.local or len(lists) == 1:
            word = "unnest" if self.ctx.local else "explode"
            select.columns = {**select.columns, **{id: f"{word}({sql})" for id, sql in zip(ids, lists, strict=True)}}
            select.expanded = True
            select = relations.wrap(select)
            for id, call in zip(ids, rel.functions, strict=True):
                if len(call.fields) != 1:
                    select.columns = {**select.columns, **self._members(call, select.columns[id])}
            return select
        return self._exploded(select, rel.functions, lists, "explode")

    def lateral(self, relations: RelationLowering, left: Select, rel: ir.FunctionScan, *, outer: bool) -> Select:
        """On Spark, a lateral join of `left` with set-returning functions: each row beside what its lists hold; with
        `outer` also the rows whose lists are empty."""
        select = left
        if not select.plain() or not relations.inlinable(
            select, tuple(arg for call in rel.functions for arg in call.args)
        ):
            select = relations.wrap(select)
        self.ctx.columns.update(select.columns)
        lists = [self._list(call) for call in rel.functions]
        word = "posexplode" if rel.ordinality is not None else "explode"
        return self._exploded(select, rel.functions, lists, word + "_outer" * outer, rel.ordinality)

    def _exploded(
        self, select: Select, calls: Sequence[ir.FunctionCall], lists: Sequence[str], generator: str,
        ordinality: int | None = None,
    ) -> Select:  # fmt: skip
        """Spark's SELECT of `select`'s columns beside the elements of lists, which are unnested side by side."""
        outputs = [(sql, f"c{id}") for id, sql in select.columns.items()]
        if len(lists) == 1:
            elements = lists[0]
        else:
            elements = f"arrays_zip({', '.join([f'coalesce({sql}, array())' for sql in lists])})"
        text = select.render([*outputs, (f"{generator}({elements})", "z" if ordinality is None else "(p, z)")])
        alias = self.ctx.alias()
        columns = {id: f"{alias}.c{id}" for id in select.columns}
        for index, call in enumerate(calls):
            columns.update(self._members(call, f"{alias}.z" if len(lists) == 1 else f"{alias}.z.`{index}`"))
        if ordinality is not None:
            columns[ordinality] = f"CAST({alias}.p + 1 AS BIGINT)"
        self.ctx.columns.update(columns)
        return Select(self.ctx, columns, f"({text}) AS {alias}")
