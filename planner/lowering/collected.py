"""Aggregates that collect their rows into a list first: array_agg, string_agg and the json aggregates.

The list holds structs: ``k0``, ``k1`` ... the keys of the call's ORDER BY where the engine's own aggregate cannot order
(Spark), ``v`` the value and ``w`` a second one. Then it is made into an array or joined into text. An aggregate with
DISTINCT and no ORDER BY gives its values in their order, as PostgreSQL's sort makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from planner.dialects.quoting import quoted
from planner.functions.engines.spark import checked
from planner.ir import nodes as ir
from planner.ir.physical import element_type
from planner.lowering.context import Context
from planner.lowering.scalars import Scalars
from planner.lowering.templates import fill
from planner.lowering.text_output import json_template, output_template
from planner.types import types
from planner.types.types import SqlType

ItemText: TypeAlias = Callable[[str], str]
"""From the name of a list's element to its SQL text."""

JSON_LISTS = frozenset({"json_agg", "jsonb_agg"})
JSON_OBJECTS = frozenset({"json_object_agg", "jsonb_object_agg"})
COLLECTED = frozenset({"array_agg", "string_agg"}) | JSON_LISTS | JSON_OBJECTS
"""The aggregates that this module prints."""


class Collected:
    """Prints one call. `suffix` (FILTER or OVER) follows the aggregate function."""

    def __init__(self, ctx: Context, scalars: Scalars, call: ir.AggregateCall, suffix: str) -> None:
        self.ctx = ctx
        self.scalars = scalars
        self.call = call
        self.suffix = suffix
        self.name = call.signature.name

    def sql(self) -> str:
        """The call's SQL."""
        if self.name in JSON_OBJECTS:
            return self._json(self._joined("{ ", ", ", " }", [self._entry()], lambda item: f"{item}.v"))
        value = self.call.args[0]
        if self.name in JSON_LISTS:
            # A row or an array that is not the first stands on a line of its own.
            structured = value.type.oid == types.RECORD or element_type(value.type) is not None
            line = quoted(self.ctx.dialect.string("\n "))
            element = f"coalesce({line} || {{0}}, 'null')" if structured else "coalesce({0}, 'null')"
            if not self.call.distinct or value.type.oid == types.RECORD:
                made = fill(self.ctx, element, [self.scalars.json(value)])
                return self._json(self._joined("[", ", ", "]", [made], lambda item: f"{item}.v"))
            template = element.replace("{0}", json_template(self.ctx, value.type))
            raw = [self.scalars.sql(value)]
            return self._json(self._joined("[", ", ", "]", raw, lambda item: fill(self.ctx, template, [f"{item}.v"])))
        if self.name == "array_agg":
            return self._array()
        return self._text()

    # ------------------------------------------------------------ kinds

    def _array(self) -> str:
        value = self.scalars.sql(self.call.args[0])
        if self.ctx.local:
            return f"list({self._distinct()}{value}{self._ordering()}){self.suffix}"
        item = self.ctx.variable()
        return fill(
            self.ctx, f"CASE WHEN size({{0}}) > 0 THEN transform({{0}}, {item} -> {item}.v) END", [self._list([value])]
        )

    def _text(self) -> str:
        value, delimiter = [self.scalars.sql(arg) for arg in self.call.args]
        constant = self.scalars.constant(self.call.args[1])
        if self.ctx.local and isinstance(constant, str):
            return f"string_agg({self._distinct()}{value}, {delimiter}{self._ordering()}){self.suffix}"
        # What stands before each value but the first is the delimiter of its own row.
        item, place = self.ctx.variable(), self.ctx.variable()
        rows = self._list([value, f"coalesce({delimiter}, '')"])
        found = self._filtered(rows, f"{item}.v IS NOT NULL", item)
        if self.ctx.local:
            text = f"CASE WHEN {place} = 1 THEN {item}.v ELSE {item}.w || {item}.v END"
            joined = f"array_to_string(list_transform({{0}}, lambda {item}, {place}: {text}), '')"
            return fill(self.ctx, f"CASE WHEN len({{0}}) > 0 THEN {joined} END", [found])
        text = f"CASE WHEN {place} = 0 THEN {item}.v ELSE {item}.w || {item}.v END"
        joined = f"array_join(transform({{0}}, ({item}, {place}) -> {text}), '')"
        return fill(self.ctx, f"CASE WHEN size({{0}}) > 0 THEN {joined} END", [found])

    def _entry(self) -> str:
        """One member of a json object."""
        key, value = self.call.args
        text = fill(self.ctx, output_template(self.ctx, key.type), [self.scalars.sql(key)])
        quoted = fill(self.ctx, json_template(self.ctx, SqlType(types.TEXT)), [text])
        fault = self.ctx.dialect.raise_sql("22023", "field name must not be null")
        made = fill(self.ctx, f"CASE WHEN {{0}} IS NULL THEN {fault} ELSE {{0}} END", [quoted])
        return fill(self.ctx, "({0} || ' : ' || coalesce({1}, 'null'))", [made, self.scalars.json(value)])

    def _json(self, text: str) -> str:
        """A json text as the aggregate's result."""
        if not self.name.startswith("jsonb"):
            return text
        made = f"tg_jsonb_in({text})"
        return made if self.ctx.local else checked(made)

    # ------------------------------------------------------------ lists

    def _joined(self, before: str, between: str, after: str, values: Sequence[str], item_text: ItemText) -> str:
        item = self.ctx.variable()
        start, separator, end, line = [self.ctx.dialect.string(part) for part in (before, between, after, "\n ")]
        if self.ctx.local:
            if not self.call.distinct and item_text("e") == "e.v":
                text = f"string_agg({values[0]}, {separator}{self._ordering()}){self.suffix}"
                return f"({start} || ltrim({text}, {line}) || {end})"
            texts = f"list_transform({{0}}, lambda {item}: {item_text(item)})"
            return fill(
                self.ctx,
                f"CASE WHEN len({{0}}) > 0 THEN {quoted(start)} || ltrim(array_to_string({texts}, {separator}), {line})"
                f" || {quoted(end)} END",
                [self._list(values)],
            )
        texts = f"transform({{0}}, {item} -> {item_text(item)})"
        body = f"trim(LEADING {line} FROM array_join({texts}, {separator}))"
        return fill(
            self.ctx,
            f"CASE WHEN size({{0}}) > 0 THEN {quoted(start)} || {body} || {quoted(end)} END",
            [self._list(values)],
        )

    def _list(self, values: Sequence[str]) -> str:
        """The rows' values as a list of structs, in the order that the call asks for."""
        names = ("v", "w")
        if self.ctx.local:
            members = ", ".join([f"'{name}': {sql}" for name, sql in zip(names, values, strict=False)])
            rows = f"list({self._distinct()}{{{members}}}{'' if self.call.distinct else self._ordering()}){self.suffix}"
            return self._sorted_values(rows) if self.call.distinct else rows
        keys = self._keys()
        printed = self.scalars.relations.order_keys(keys)
        members = ", ".join(
            [f"'k{index}', {key.sql}" for index, key in enumerate(printed)]
            + [f"'{name}', {sql}" for name, sql in zip(names, values, strict=False)]
        )
        rows = f"collect_list({self._distinct()}named_struct({members})){self.suffix}"
        if not printed:
            return rows
        left, right = self.ctx.variable(), self.ctx.variable()
        tests: list[str] = []
        for index, key in enumerate(keys):
            a, b = f"{left}.k{index}", f"{right}.k{index}"
            null = -1 if key.nulls_first else 1
            less = 1 if key.descending else -1
            tests.append(
                f"WHEN {a} IS NULL AND {b} IS NOT NULL THEN {null} WHEN {a} IS NOT NULL AND {b} IS NULL THEN {-null} "
                f"WHEN {a} < {b} THEN {less} WHEN {a} > {b} THEN {-less}"
            )
        return f"array_sort({rows}, ({left}, {right}) -> CASE {' '.join(tests)} ELSE 0 END)"

    def _sorted_values(self, rows: str) -> str:
        """Distinct values in order: by the value, which is what an ORDER BY beside DISTINCT may name."""
        key = next(iter(self._keys()), None)
        descending = key is not None and key.descending
        first = key is not None and key.nulls_first
        return f"list_sort({rows}, '{'DESC' if descending else 'ASC'}', 'NULLS {'FIRST' if first else 'LAST'}')"

    def _filtered(self, rows: str, condition: str, item: str) -> str:
        if self.ctx.local:
            return f"list_filter({rows}, lambda {item}: {condition})"
        return f"filter({rows}, {item} -> {condition})"

    def _distinct(self) -> str:
        return "DISTINCT " if self.call.distinct else ""

    def _keys(self) -> tuple[ir.SortKey, ...]:
        """The ORDER BY; with DISTINCT, what PostgreSQL sorts by."""
        keys = self.call.order_by
        if keys or not self.call.distinct or self.call.args[0].type.oid == types.RECORD or self.name in JSON_OBJECTS:
            return keys
        return (ir.SortKey(expr=self.call.args[0], descending=False, nulls_first=False),)

    def _ordering(self) -> str:
        keys = self._keys()
        if self.call.distinct and not self.call.order_by and keys:
            expr = keys[0].expr
            if self.scalars.key("x", expr.type) != "x":
                # The engine orders distinct values by themselves only.
                return ""
        printed = self.scalars.relations.order_keys(keys)
        return f" ORDER BY {', '.join([key.sql + key.suffix for key in printed])}" if printed else ""
