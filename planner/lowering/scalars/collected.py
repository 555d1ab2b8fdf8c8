"""Aggregates that collect their rows into a list first: array_agg, string_agg and the json aggregates.

The list holds structs: ``k0``, ``k1`` ... the keys of the call's ORDER BY where the engine's own aggregate cannot
order, ``v`` the value and ``w`` a second one. Then it is made into an array or joined into text. An aggregate with
DISTINCT and no ORDER BY gives its values in their order, as PostgreSQL's sort makes them.

    string_agg(name, sep ORDER BY id)      # collect_list(named_struct('k0', id, 'v', name, 'w', coalesce(sep, '')))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from planner.dialects.quoting import quoted
from planner.ir import nodes as ir
from planner.ir.physical import element_type
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import Fragment, OrderKey, made, simple
from planner.lowering.fragments.templates import fill
from planner.lowering.scalars.arrays import joined_arrays
from planner.lowering.scalars.casts import cast
from planner.lowering.scalars.rows import json_text
from planner.lowering.scalars.scalars import Scalars
from planner.lowering.scalars.texts import json_key_template, json_template
from planner.types import types
from planner.types.types import SqlType
from planner.types.user_types import attributes

ItemText: TypeAlias = Callable[[str], str]
"""From the name of a list's element to its SQL text."""

JSON_LISTS = frozenset({"json_agg", "jsonb_agg"})
JSON_OBJECTS = frozenset({"json_object_agg", "jsonb_object_agg"})
COLLECTED = frozenset({"array_agg", "string_agg"}) | JSON_LISTS | JSON_OBJECTS
"""The aggregates that this module prints."""


def _value_of(item: str) -> str:
    return f"{item}.v"


def key_members(keys: Sequence[OrderKey]) -> list[tuple[str, str]]:
    """The first members of the structs that `in_order_of` sorts: the keys k0, k1 ..., and before a key whether it is
    NULL, where NULL comes elsewhere than the engine puts it."""
    members: list[tuple[str, str]] = []
    for index, key in enumerate(keys):
        if _one_way(keys) and key.nulls_first == key.descending:
            members.append((f"n{index}", f"({key.key} IS NULL)"))
        members.append((f"k{index}", key.key.sql))
    return members


def in_order_of(ctx: Context, rows: str, keys: Sequence[OrderKey], names: Iterable[str] = ("v",)) -> str:
    """A list of structs that begin with `key_members`, before those that are `names`, in the order of their keys, as
    Spark sorts it; what has the same keys stays as it comes. Its comparison of whole structs is far cheaper than one in
    a lambda, which is left to keys of both directions."""
    if _one_way(keys):
        item, place, descending = ctx.variable(), ctx.variable(), keys[0].descending
        members = [(name, f"{item}.{name}") for name, _ in key_members(keys)]
        members.append(("p", f"-{place}" if descending else place))
        struct = ctx.dialect.struct([*members, *((name, f"{item}.{name}") for name in names)])
        placed = ctx.dialect.transform_indexed(rows, item, place, struct)
        return f"sort_array({placed}, {'FALSE' if descending else 'TRUE'})"
    left, right = ctx.variable(), ctx.variable()
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


def _one_way(keys: Sequence[OrderKey]) -> bool:
    return len({key.descending for key in keys}) == 1


class Collected:
    """Prints one call. `suffix` (FILTER or OVER) follows the aggregate function."""

    def __init__(self, scalars: Scalars, call: ir.AggregateCall, suffix: Fragment) -> None:
        self.ctx = scalars.ctx
        self.scalars = scalars
        self.call = call
        self.suffix = suffix
        self.name = call.signature.name

    def lower(self) -> Fragment:
        """The call's SQL."""
        if self.name in JSON_OBJECTS:
            return self._json(self._joined("{ ", ", ", " }", [self._entry()]))
        if self.name in JSON_LISTS:
            return self._json(self._json_list(self.call.args[0]))
        if self.name == "array_agg":
            return self._array()
        return self._text()

    # ------------------------------------------------------------ kinds

    def _json_list(self, value: ir.Scalar) -> Fragment:
        # A row or an array that is not the first stands on a line of its own.
        is_row = value.type.oid == types.RECORD or attributes(value.type.oid) is not None
        structured = is_row or element_type(value.type) is not None
        line = quoted(self.ctx.dialect.string("\n "))
        element = f"coalesce({line} || {{0}}, 'null')" if structured else "coalesce({0}, 'null')"
        if not self.call.distinct or value.type.oid == types.RECORD:
            return self._joined("[", ", ", "]", [fill(self.ctx, element, [json_text(self.scalars, value)])])
        template = element.replace("{0}", json_template(self.ctx, value.type))
        raw = self.scalars.lower(value)
        return self._joined("[", ", ", "]", [raw], lambda item: fill(self.ctx, template, [simple(f"{item}.v")]).sql)

    def _array(self) -> Fragment:
        given = self.call.args[0]
        if element_type(given.type) is None:
            return self._values(self.scalars.lower(given))
        arrays = self._values(self.scalars.lower(given))
        if not given.type.dimensioned:
            # Outside of the aggregate: DuckDB fails on some functions of lists inside of one.
            name, whole = self.ctx.variable(), replace(given.type, dimensioned=True)
            with_dims = cast(self.ctx, simple(name), given.type, whole, explicit=True)
            arrays = fill(self.ctx, self.ctx.dialect.transform("{0}", name, with_dims.sql), [arrays])
        return joined_arrays(self.scalars, arrays, "tg_array_gathered_dims")

    def _values(self, value: Fragment) -> Fragment:
        """The values as a list, NULL without any."""
        dialect = self.ctx.dialect
        if dialect.ordered_aggregates and not self._compares_by_key():
            if self._orders_itself() and _is_never_alike(value):
                rows = f"{dialect.list_function}(DISTINCT {value}){self.suffix}"
                return made(self._sorted_values(rows), value, self.suffix)
            ordering = self._by_value(value) if self._orders_itself() else self._ordering()
            sql = f"{dialect.list_function}({self._distinct()}{value}{ordering}){self.suffix}"
            return made(sql, value, ordering, self.suffix)
        item = self.ctx.variable()
        values = dialect.transform("{0}", item, f"{item}.v")
        return fill(self.ctx, f"CASE WHEN {dialect.length('{0}')} > 0 THEN {values} END", [self._list([value])])

    def _orders_itself(self) -> bool:
        """Whether distinct values are ordered by themselves, as the engine compares them."""
        given = self.call.args[0]
        if not self.call.distinct or not self._keys():
            return False
        return element_type(given.type) is not None or (
            self._keys()[0].expr == given and self.scalars.orders_as_is(given.type)
        )

    def _by_value(self, value: Fragment) -> Fragment:
        """The order of distinct values: DuckDB orders them by nothing but what it collects, written in the same way. Of
        arrays it begins with their elements, as PostgreSQL compares them."""
        key = self._keys()[0]
        direction, nulls = "DESC" if key.descending else "ASC", "FIRST" if key.nulls_first else "LAST"
        return made(f" ORDER BY {value} {direction} NULLS {nulls}", value)

    def _text(self) -> Fragment:
        if self.call.args[0].type.oid != types.BYTEA:
            return self._strung(*[self.scalars.lower(arg) for arg in self.call.args])
        # No engine joins bytes; their hexadecimal digits are in the same order.
        digits = [fill(self.ctx, "hex({0})", [self.scalars.lower(arg)]) for arg in self.call.args]
        return fill(self.ctx, "unhex({0})", [self._strung(*digits)])

    def _strung(self, value: Fragment, delimiter: Fragment) -> Fragment:
        dialect = self.ctx.dialect
        alike = not (self._orders_itself() and _is_never_alike(value))
        if alike and dialect.ordered_aggregates and isinstance(self.scalars.constant(self.call.args[1]), str):
            ordering = self._by_value(value) if self._orders_itself() else self._ordering()
            sql = f"string_agg({self._distinct()}{value}, {delimiter}{ordering}){self.suffix}"
            return made(sql, value, delimiter, ordering, self.suffix)
        # What stands before each value but the first is the delimiter of its own row.
        item, place = self.ctx.variable(), self.ctx.variable()
        rows = self._list([value, made(f"coalesce({delimiter}, '')", delimiter)])
        found = made(dialect.filter(rows.sql, item, f"{item}.v IS NOT NULL"), rows)
        text = f"CASE WHEN {place} = {dialect.first_position} THEN {item}.v ELSE {item}.w || {item}.v END"
        joined = dialect.join(dialect.transform_indexed("{0}", item, place, text), "''")
        return fill(self.ctx, f"CASE WHEN {dialect.length('{0}')} > 0 THEN {joined} END", [found])

    def _entry(self) -> Fragment:
        """One member of a json object."""
        key, value = self.call.args
        text = fill(self.ctx, json_key_template(self.ctx, key.type), [self.scalars.lower(key)])
        name = fill(self.ctx, json_template(self.ctx, SqlType(types.TEXT)), [text])
        fault = self.ctx.dialect.raise_sql("22023", "field name must not be null")
        missing, given = "{0} IS NULL", [name]
        if self.call.filter is not None:
            # Rows that FILTER leaves out may have any name.
            missing, given = "{0} IS NULL AND {1}", [name, self.scalars.lower(self.call.filter)]
        present = fill(self.ctx, f"CASE WHEN {missing} THEN {fault} ELSE {{0}} END", given)
        return fill(
            self.ctx, "({0} || ' : ' || coalesce({1}, 'null'))", [present, json_text(self.scalars, value)]
        )  # fmt: skip

    def _json(self, text: Fragment) -> Fragment:
        """A json text as the aggregate's result."""
        if not self.name.startswith("jsonb"):
            return text
        return fill(self.ctx, self.ctx.raising("tg_jsonb_in({0})"), [text])

    # ------------------------------------------------------------ lists

    def _joined(
        self, before: str, between: str, after: str, values: Sequence[Fragment], item_text: ItemText = _value_of
    ) -> Fragment:
        """The values' texts between brackets: `item_text` makes that of one."""
        item = self.ctx.variable()
        dialect = self.ctx.dialect
        start, separator, end, line = [dialect.string(part) for part in (before, between, after, "\n ")]
        if dialect.ordered_aggregates and not self.call.distinct and item_text is _value_of:
            ordering = self._ordering()
            text = f"string_agg({values[0]}, {separator}{ordering}){self.suffix}"
            sql = f"({start} || {dialect.without_leading(text, line)} || {end})"
            return made(sql, values[0], ordering, self.suffix)
        joined = dialect.join(dialect.transform("{0}", item, item_text(item)), separator)
        body = dialect.without_leading(joined, line)
        template = f"CASE WHEN {dialect.length('{0}')} > 0 THEN {quoted(start)} || {body} || {quoted(end)} END"
        return fill(self.ctx, template, [self._list(values)])

    def _list(self, values: Sequence[Fragment]) -> Fragment:
        """The rows' values as a list of structs, in the order that the call asks for."""
        dialect = self.ctx.dialect
        if self._compares_by_key():
            return self._one_of_each(values)
        members = list(zip(("v", "w"), [value.sql for value in values], strict=False))
        if dialect.ordered_aggregates:
            ordering = Fragment("") if self.call.distinct else self._ordering()
            struct = dialect.struct(members)
            sql = f"{dialect.list_function}({self._distinct()}{struct}{ordering}){self.suffix}"
            return made(self._sorted_values(sql) if self.call.distinct else sql, *values, ordering, self.suffix)
        keys = self.scalars.relations.order_keys(self._keys())
        struct = dialect.struct([*key_members(keys), *members])
        rows = f"{dialect.list_function}({self._distinct()}{struct}){self.suffix}"
        rows = in_order_of(self.ctx, rows, keys, dict(members)) if keys else rows
        return made(rows, *[key.key for key in keys], *values, self.suffix)

    def _compares_by_key(self) -> bool:
        """Whether DISTINCT has to tell values apart by something else than themselves: 1.0 and 1.00 are equal."""
        given = self.call.args[0].type
        if element_type(given) is not None and self.ctx.dialect.ordered_aggregates:
            return False  # DuckDB fails on the lambdas that this would take: arrays are told apart by their elements.
        return self.call.distinct and (bool(self._fields()) or not self.scalars.compares_as_is(given))

    def _one_of_each(self, values: Sequence[Fragment]) -> Fragment:
        """`_list` with the first of equal values only: of neighbours, when all are in order."""
        dialect = self.ctx.dialect
        keys = self.scalars.relations.order_keys(self._keys())
        names = [f"k{index}" for index in range(len(keys))]
        members = list(zip(("v", "w"), [value.sql for value in values], strict=False))
        if dialect.ordered_aggregates:
            ordering = f" ORDER BY {', '.join(map(str, keys))}" if keys else ""
            struct = dialect.struct([*zip(names, [key.key.sql for key in keys], strict=True), *members])
            rows = f"{dialect.list_function}({struct}{ordering}){self.suffix}"
        else:
            rows = f"{dialect.list_function}({dialect.struct([*key_members(keys), *members])}){self.suffix}"
            rows = in_order_of(self.ctx, rows, keys, dict(members)) if keys else rows
        item, place, kept = self.ctx.variable(), self.ctx.variable(), self.ctx.variable()
        before = f"{{0}}[{place} - 1]"
        differs = [dialect.distinct(f"{item}.{name}", f"{before}.{name}", negated=False) for name in names]
        chosen = f"CASE WHEN {' OR '.join([f'{place} = {dialect.first_position}', *differs])} THEN {item} END"
        marked = dialect.transform_indexed("{0}", item, place, chosen)
        template = dialect.filter(marked, kept, f"{kept} IS NOT NULL")
        return fill(self.ctx, template, [made(rows, *[key.key for key in keys], *values, self.suffix)])

    def _sorted_values(self, rows: str) -> str:
        """Distinct values in order, as DuckDB sorts them: by the value, which is what an ORDER BY with DISTINCT may
        name."""
        key = next(iter(self._keys()), None)
        descending = key is not None and key.descending
        first = key is not None and key.nulls_first
        return f"list_sort({rows}, '{'DESC' if descending else 'ASC'}', 'NULLS {'FIRST' if first else 'LAST'}')"

    def _distinct(self) -> str:
        return "DISTINCT " if self.call.distinct else ""

    def _keys(self) -> tuple[ir.SortKey, ...]:
        """The ORDER BY; with DISTINCT, what PostgreSQL sorts by."""
        keys = self.call.order_by
        if self.call.distinct and not keys and (fields := self._fields()):
            return tuple([ir.SortKey(expr=field, descending=False, nulls_first=False) for field in fields])
        if keys or not self.call.distinct or self.call.args[0].type.oid == types.RECORD or self.name in JSON_OBJECTS:
            return keys
        return (ir.SortKey(expr=self.call.args[0], descending=False, nulls_first=False),)

    def _fields(self) -> list[ir.Scalar]:
        """What a row that is written out is compared by: its fields, those of rows in it in their place."""
        pending: list[ir.Scalar] = [self.call.args[0]]
        fields: list[ir.Scalar] = []
        while pending:
            scalar = pending.pop(0)
            if isinstance(scalar, ir.RowConstructor):
                pending[:0] = scalar.items
            elif scalar.type.oid == types.RECORD:
                return []
            else:
                fields.append(scalar)
        return fields if isinstance(self.call.args[0], ir.RowConstructor) else []

    def _ordering(self) -> Fragment:
        """The ORDER BY clause of the engine's aggregate, or nothing."""
        keys = self._keys()
        implied = bool(keys) and not self.call.order_by
        if implied and not self.scalars.orders_as_is(keys[0].expr.type):
            # The engine orders distinct values by themselves only.
            return Fragment("")
        ordering, parts = self.scalars.ordering(keys)
        return made(f" ORDER BY {ordering}" if ordering else "", *parts)


def _is_never_alike(value: Fragment) -> bool:
    """Whether DuckDB takes `value` for another one when it is written once more."""
    return value.may_raise or value.volatile or value.subquery
