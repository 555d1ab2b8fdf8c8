"""Collations of expressions, derived as PostgreSQL's parse_collate.c does it.

An explicit COLLATE goes before what columns and functions bring along, among which one that is not the default goes
before that; two that differ leave the value without a collation, unless both are explicit, which is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cache, partial
from typing import Any, NamedTuple

from planner.catalog_data.content import columns
from planner.collations.errors import CollationMismatch, IndeterminateCollation
from planner.ir import nodes as ir
from planner.ir.rewrite import children, walk
from planner.types import types as t
from planner.types.operator_classes import DEFAULT_COLLATION, collation_name, column_collation, key_collation
from planner.types.type_names import collation_oid, format_type, type_row
from planner.types.type_scope import record_of
from storage.catalog.model import Relation


class Strength(IntEnum):
    """Where a collation comes from; of two the stronger one holds."""

    NONE = 0
    IMPLICIT = 1
    CONFLICT = 2
    EXPLICIT = 3


class Derived(NamedTuple):
    """A collation by its oid, 0 for none; of a conflict those that it is `between`."""

    oid: int
    strength: Strength
    between: tuple[int, ...] = ()


_NOTHING = Derived(0, Strength.NONE)


class Collations:
    """What is derived for the columns of `root`, a relation or an expression. `relation` finds records by their
    oids."""

    def __init__(self, root: Any, relation: Callable[[int], object]) -> None:
        self._relation = relation
        self._fields: dict[int, ir.Field] = {}
        self._sources: dict[int, Callable[[], Derived]] = {}
        self._computed: set[int] = set()
        """Columns that a select list computes."""
        self._known: dict[int, Derived] = {}
        self._values: dict[int, Derived] = {}
        """Of what `LetValue` stands for, by its id."""
        tables: dict[int, ir.Rel] = {}
        for node in walk(root):
            if isinstance(node, ir.CommonTable):
                tables[node.id] = node.rel
        for node in walk(root):
            for field in getattr(node, "fields", ()):
                self._fields.setdefault(field.id, field)
            self._note_sources(node, tables)

    def of_fields(self, fields: Iterable[tuple[str, ir.Field]], *, of_view: bool = False) -> tuple[int, ...]:
        """The collations of output columns, as `Column.collation` has them: 0 for the one that the type has. Raises
        42P22 for a column that could have one and for which none was derived, 42P21."""
        found = []
        for name, field in fields:
            own = DEFAULT_COLLATION if field.type.oid == t.UNKNOWN else key_collation(field.type.declared_oid)
            derived = self._of_field(field.id).oid if own else 0
            if own and not derived:
                shown = format_type(field.type.declared_oid)
                raise IndeterminateCollation(
                    f'could not determine which collation to use for view column "{name}"'
                    if of_view
                    else f'no collation was derived for column "{name}" with collatable type {shown}',
                    hint="Use the COLLATE clause to set the collation explicitly.",
                )
            found.append(0 if derived == own else derived)
        return tuple(found)

    def of_value(self, scalar: ir.Scalar) -> int:
        """The oid of an expression's collation, 0 for none. Raises 42P21."""
        return self._of(scalar).oid

    def derived(self, scalar: ir.Scalar | ir.AggregateCall | ir.WindowCall) -> Derived:
        """What is derived for an expression. Raises 42P21."""
        return self._of(scalar)

    def together(self, values: Iterable[ir.Scalar]) -> Derived:
        """What several values have together. Raises 42P21."""
        return self._of_column(values)

    def of_key(self, key: ir.Scalar) -> Derived:
        """What is derived for what rows are sorted or grouped by; of an output column of the query itself as for the
        expression there. Raises 42P21."""
        return self._of_output(key.id) if isinstance(key, ir.ColumnRef) else self._of(key)

    def merged(self, *outputs: int) -> Derived:
        """What output columns of the sides of a set operation have together. Raises 42P21."""
        return _merged(map(self._of_output, outputs))

    def _of_output(self, id: int) -> Derived:
        return self._sources[id]() if id in self._computed else self._of_field(id)

    def _note_sources(self, node: Any, tables: Mapping[int, ir.Rel]) -> None:
        """What the columns come from that `node` makes."""
        match node:
            case ir.Project():
                self._note(node.fields, [partial(self._of, expr) for expr in node.exprs], node.exprs)
                for field, expr in zip(node.fields, node.exprs, strict=True):
                    if not isinstance(expr, ir.ColumnRef):
                        self._computed.add(field.id)
            case ir.Values():
                places = zip(*node.rows, strict=True)
                self._note(node.fields, [partial(self._of_column, values) for values in places])
            case ir.FunctionCall() if len(node.fields) == 1:
                self._note(node.fields, [partial(self._of_call, node.fields[0].type, node.args)])
            case ir.Aggregate():
                keys = [partial(self._of, key) for key in node.keys]
                self._note(node.fields, [*keys, *(partial(self._of, call) for call in node.calls)], node.keys)
            case ir.Window():
                fields = node.fields[len(node.input.fields) :]
                self._note(fields, [partial(self._of, call) for call in node.calls])
            case ir.SetOperation():
                pairs = list(zip(node.left.fields, node.right.fields, strict=True))
                left = [ir.ColumnRef(id=a.id, type=a.type) for a, _ in pairs]
                self._note(node.fields, [partial(self.merged, a.id, b.id) for a, b in pairs], left)
            case ir.CteScan() if node.cte in tables:
                inner = tables[node.cte].fields
                self._note(node.fields, [partial(self._of_field, field.id) for field in inner])
            case _:
                pass

    def _note(
        self,
        fields: Iterable[ir.Field],
        sources: Iterable[Callable[[], Derived]],
        exprs: Iterable[ir.Scalar] = (),
    ) -> None:
        """Each of `fields` has its source, but for those that the expression at its place only hands on."""
        handed_on = {expr.id for expr in exprs if isinstance(expr, ir.ColumnRef)}
        for field, source in zip(fields, sources, strict=False):
            if field.id not in handed_on:
                self._sources.setdefault(field.id, source)

    def _of_field(self, id: int) -> Derived:
        known = self._known.get(id)
        if known is None:
            known = self._known[id] = self._found(id)
        return known

    def _found(self, id: int) -> Derived:
        field = self._fields.get(id)
        source = self._sources.get(id)
        if source is not None:
            return _implicit(source().oid)
        if field is None:
            return _NOTHING
        if field.origin is not None:
            stored = self._stored(field.origin)
            if stored is not None:
                return _implicit(stored)
        return _implicit(key_collation(field.type.declared_oid))

    def _stored(self, origin: ir.Origin) -> int | None:
        record = self._relation(origin.relation_oid)
        if not isinstance(record, Relation):
            return _of_system_columns().get((origin.relation_oid, origin.attnum))
        return next((column_collation(column) for column in record.columns if column.attnum == origin.attnum), None)

    def _of_column(self, values: Iterable[ir.Scalar]) -> Derived:
        return _merged(map(self._of, values))

    def _of_call(self, type_: t.SqlType, args: Iterable[Any]) -> Derived:
        """Of what is computed of `args`, and has this type."""
        own = key_collation(type_.declared_oid)
        if not own:
            return _NOTHING
        merged = _merged(map(self._of, args))
        return merged if merged.strength else _implicit(own)

    def _of(self, node: Any) -> Derived:
        match node:
            case ir.Collate():
                return Derived(collation_oid(node.collation), Strength.EXPLICIT)
            case ir.ColumnRef():
                return self._of_field(node.id)
            case ir.ScalarSubquery() | ir.ArraySubquery():
                return self._of_field(node.rel.fields[0].id)
            case ir.DomainValue():
                own = key_collation(node.type.declared_oid)
                return _implicit(own) if own not in (0, DEFAULT_COLLATION) else self._of_call(node.type, (node.arg,))
            case ir.FieldSelect():
                return _implicit(_of_attribute(node) or key_collation(node.type.declared_oid))
            case ir.Case():
                results = [result for _, result in node.whens]
                return self._of_call(node.type, results if node.otherwise is None else [*results, node.otherwise])
            case ir.Let():
                self._values[node.id] = self._of(node.value)
                return self._of(node.body)
            case ir.LetValue():
                return self._values.get(node.id) or _implicit(key_collation(node.type.declared_oid))
            case ir.ForEach():
                return self._of_call(node.type, (node.arg,))
            case ir.AggregateCall() | ir.WindowCall():
                keys = node.order_by if node.signature.ordered_set and len(node.order_by) == 1 else ()
                return self._of_call(node.type, (*node.args, *(key.expr for key in keys)))
            case _:
                type_ = getattr(node, "type", None)
                if not isinstance(type_, t.SqlType):
                    return _NOTHING
                if type_.oid == t.UNKNOWN:
                    return _implicit(DEFAULT_COLLATION)
                return self._of_call(type_, children(node)) if key_collation(type_.declared_oid) else _NOTHING


def _implicit(oid: int) -> Derived:
    return Derived(oid, Strength.IMPLICIT) if oid else _NOTHING


def _merged(states: Iterable[Derived]) -> Derived:
    """What several values have together. Raises 42P21 for explicit collations that differ."""
    result = _NOTHING
    for state in states:
        if state.strength > result.strength:
            result = state
        elif state.strength < result.strength or state.oid == result.oid:
            continue
        elif state.strength is Strength.EXPLICIT:
            names = " and ".join(f'"{collation_name(oid)}"' for oid in (result.oid, state.oid))
            raise CollationMismatch(f"collation mismatch between explicit collations {names}")
        elif result.oid == DEFAULT_COLLATION:
            result = state
        elif state.oid != DEFAULT_COLLATION:
            result = Derived(0, Strength.CONFLICT, (result.oid, state.oid))
    return result


def _of_attribute(node: ir.FieldSelect) -> int:
    """Of a field of a composite type; 0 for one of a record."""
    row = type_row(node.arg.type.oid)
    record = None if row is None else record_of(row.oid)
    if not isinstance(record, Relation):
        return 0
    live = record.live_columns()
    return column_collation(live[node.index]) if node.index < len(live) else 0


@cache
def _of_system_columns() -> Mapping[tuple[int, int], int]:
    data = columns("pg_attribute")
    keys = zip(data["attrelid"], data["attnum"], strict=True)
    return dict(zip(keys, data["attcollation"], strict=True))
