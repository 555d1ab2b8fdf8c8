"""Joins of a few rows to a large table: what keys the rows of a scan must have to find a partner.

``small JOIN large ON large.id = small.ref`` needs those rows of the large table only whose id is among the refs of the
small side. So do outer joins on their nullable side, ``id IN (SELECT ...)``, ``id = (SELECT ...)`` and ``EXISTS``. The
other side is a query of its own, if nothing around it has a say in it: its values are the keys.

A row without such a partner does not matter to the result, for the same reasons for which one that fails a condition
does not (`adapter.plans.predicates`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from adapter.plans.conditions import condition_of
from planner.ir import nodes as ir
from planner.ir.rewrite import column_ids, conjuncts, is_volatile, outermost_relations, walk
from planner.types import types as t

_INTEGERS = frozenset({t.INT2, t.INT4, t.INT8, t.OID})
_STRINGS = frozenset({t.TEXT, t.VARCHAR})
_KEYS = _INTEGERS | _STRINGS | {t.BOOL, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.UUID, t.NUMERIC, t.BYTEA}


class KeySource(Struct, frozen=True, kw_only=True):
    """Rows of the scan matter only if their `fields` have the values of `exprs` in some row of `rel`."""

    fields: tuple[int, ...]
    rel: ir.Rel
    exprs: tuple[ir.Scalar, ...]

    def query(self, places: Sequence[int]) -> ir.Rel:
        """The values of the exprs at `places`, not more often than needed."""
        exprs = tuple([self.exprs[place] for place in places])
        fields = tuple([ir.Field(id=_FIRST_ID + n, name="key", type=expr.type) for n, expr in enumerate(exprs)])
        values = ir.Project(input=self.rel, exprs=exprs, fields=fields)
        rel = self.rel
        while isinstance(rel, (ir.Filter, ir.Project)):
            rel = rel.input
        if isinstance(rel, ir.Scan):
            # Rows of one table, which may be at hand without an engine.
            return values
        return ir.Deduplicate(input=values, on=(), order_by=(), fields=fields)


class ScanKeys(Struct, frozen=True, kw_only=True):
    """A scan and all sources of keys for it."""

    scan: ir.Scan
    sources: tuple[KeySource, ...]

    def column(self, field: int) -> str | None:
        """The physical column of a field."""
        return next((f"c{f.origin.attnum}" for f in self.scan.fields if f.id == field and f.origin is not None), None)


_FIRST_ID = 1_000_000_000
"""Ids of fields that no statement has."""


class _Above(Struct, frozen=True):
    """What holds for the rows of a relation: conditions above it, sources of keys, and the common tables in scope."""

    conditions: tuple[ir.Scalar, ...] = ()
    sources: tuple[KeySource, ...] = ()
    tables: tuple[ir.CommonTable, ...] = ()


def scan_keys(rel: ir.Rel, relation_oid: int) -> list[ScanKeys]:
    """Every scan of the relation in `rel`, with its sources."""
    return list(_scans(rel, _Above(), relation_oid))


def _scans(rel: ir.Rel, above: _Above, oid: int) -> Iterator[ScanKeys]:
    match rel:
        case ir.Scan():
            if rel.relation_oid == oid:
                own = {field.id for field in rel.fields}
                yield ScanKeys(scan=rel, sources=tuple([s for s in above.sources if own.issuperset(s.fields)]))
        case ir.Filter():
            conditions = (*above.conditions, *conjuncts(rel.condition))
            sources = [source for condition in conjuncts(rel.condition) for source in _of_condition(condition, above)]
            yield from _scans(rel.input, _Above(conditions, (*above.sources, *sources), above.tables), oid)
            yield from _nested(rel.condition, oid)
        case ir.Sort():
            yield from _scans(rel.input, above, oid)
            yield from _nested(rel.keys, oid)
        case ir.Project():
            names = {f.id: e.id for f, e in zip(rel.fields, rel.exprs, strict=True) if isinstance(e, ir.ColumnRef)}
            sources = [
                replace(source, fields=tuple([names[field] for field in source.fields]))
                for source in above.sources
                if all(field in names for field in source.fields)
            ]
            yield from _scans(rel.input, _Above((), tuple(sources), above.tables), oid)
            yield from _nested(rel.exprs, oid)
        case ir.Join():
            yield from _joined(rel, above, oid)
        case ir.With():
            for table in rel.tables:
                yield from _scans(table.rel, _Above(), oid)
                if table.step is not None:
                    yield from _scans(table.step, _Above(), oid)
            yield from _scans(rel.body, replace(above, tables=(*above.tables, *rel.tables)), oid)
        case ir.Deduplicate(on=()):
            yield from _scans(rel.input, above, oid)
        case _:
            yield from _nested(rel, oid)


def _nested(node: Any, oid: int) -> Iterator[ScanKeys]:
    for rel in outermost_relations(node):
        yield from _scans(rel, _Above(), oid)


def _joined(join: ir.Join, above: _Above, oid: int) -> Iterator[ScanKeys]:
    on = () if join.condition is None else conjuncts(join.condition)
    inner = join.kind in ("cross", "inner")
    for side, other, narrowed in (
        (join.left, join.right, inner or join.kind == "right"),
        (join.right, join.left, inner or join.kind == "left"),
    ):
        sources = list(above.sources)
        if narrowed and not (join.lateral and other is join.right):
            # Above an outer join conditions on the other side hold as well; those between the two are in ON, and tested
            # on pairs only, so that one which may fail is not for all rows of a side.
            between = (*on, *above.conditions) if inner else on
            certain = on if inner else [condition for condition in on if condition_of(condition) is not None]
            source = _of_join(side, _in_scope(other, above), between, (*certain, *above.conditions))
            if source is not None:
                sources.append(source)
        below = _Above((*above.conditions, *on) if inner else (), tuple(sources), above.tables)
        yield from _scans(side, below, oid)
    yield from _nested(on, oid)


def _in_scope(rel: ir.Rel, above: _Above) -> ir.Rel:
    """`rel` with the common tables that it reads from around it."""
    names = {table.id for table in above.tables}
    if not any(isinstance(node, ir.CteScan) and node.cte in names for node in walk(rel)):
        return rel
    return ir.With(tables=above.tables, body=rel, fields=rel.fields)


def _of_join(
    side: ir.Rel, other: ir.Rel, between: Sequence[ir.Scalar], conditions: Sequence[ir.Scalar]
) -> KeySource | None:
    own, others = {field.id for field in side.fields}, {field.id for field in other.fields}
    pairs = []
    for condition in between:
        pair = _equality(condition)
        if pair is not None:
            for one, two in (pair, pair[::-1]):
                if _ref(one) in own and others.issuperset(column_ids(two)) and _alike(one, two) and not _has_rel(two):
                    pairs.append((one, two))
                    break
    if not pairs or not is_closed(other):
        return None
    local = [c for c in conditions if others.issuperset(column_ids(c)) and not _has_rel(c) and _uses_columns(c)]
    return KeySource(
        fields=tuple([_ref(one) or 0 for one, _ in pairs]),
        rel=_filtered(other, local),
        exprs=tuple([two for _, two in pairs]),
    )


def _of_condition(condition: ir.Scalar, above: _Above) -> Iterator[KeySource]:
    """Subqueries to whose rows a row has to be equal."""
    match condition:
        case ir.QuantifiedSubquery(quantifier="any") if all(op.name == "=" for op in condition.operators):
            fields = condition.rel.fields
            values = [ir.ColumnRef(id=field.id, type=field.type) for field in fields]
            yield from _subquery(condition.args, _in_scope(condition.rel, above), values)
        case ir.Call(args=(ir.ScalarSubquery() as query, arg)) | ir.Call(args=(arg, ir.ScalarSubquery() as query)) if (
            condition.signature.name == "="
        ):
            (field,) = query.rel.fields
            yield from _subquery((arg,), _in_scope(query.rel, above), [ir.ColumnRef(id=field.id, type=field.type)])
        case ir.Exists(negated=False):
            yield from _exists(condition.rel)
        case _:
            pass


def _subquery(args: Sequence[ir.Scalar], rel: ir.Rel, values: Sequence[ir.ColumnRef]) -> Iterator[KeySource]:
    pairs = [(_ref(arg), value) for arg, value in zip(args, values, strict=True) if _alike(arg, value)]
    known = [(ref, value) for ref, value in pairs if ref is not None]
    if known and is_closed(rel):
        yield KeySource(fields=tuple([ref for ref, _ in known]), rel=rel, exprs=tuple([value for _, value in known]))


def _exists(rel: ir.Rel) -> Iterator[KeySource]:
    while isinstance(rel, ir.Project):
        rel = rel.input
    if not isinstance(rel, ir.Filter) or not is_closed(rel.input):
        return
    own = {field.id for field in rel.input.fields}
    pairs = []
    local = []
    for condition in conjuncts(rel.condition):
        if own.issuperset(column_ids(condition)):
            if not _has_rel(condition):
                local.append(condition)
            continue
        pair = _equality(condition)
        for one, two in () if pair is None else (pair, pair[::-1]):
            ref = _ref(one)
            if ref is not None and ref not in own and own.issuperset(column_ids(two)) and _alike(one, two):
                pairs.append((ref, two))
                break
    if pairs:
        yield KeySource(
            fields=tuple([ref for ref, _ in pairs]),
            rel=_filtered(rel.input, local),
            exprs=tuple([two for _, two in pairs]),
        )


def _equality(condition: ir.Scalar) -> tuple[ir.Scalar, ir.Scalar] | None:
    if isinstance(condition, ir.Call) and condition.signature.name == "=" and len(condition.args) == 2:
        left, right = condition.args
        return left, right
    return None


def _ref(scalar: ir.Scalar) -> int | None:
    """The column that `scalar` is, seen through casts that change no value."""
    while isinstance(scalar, ir.Cast) and scalar.type.typmod == -1:
        kinds = {scalar.type.oid, scalar.arg.type.oid}
        if not (kinds <= _STRINGS or (kinds <= {t.INT2, t.INT4, t.INT8} and scalar.arg.type.oid != t.INT8)):
            return None
        scalar = scalar.arg
    return scalar.id if isinstance(scalar, ir.ColumnRef) else None


def _alike(one: ir.Scalar, other: ir.Scalar) -> bool:
    """Whether values of both are equal when their keys are."""
    left, right = one.type.oid, other.type.oid
    if left not in _KEYS or (left == t.NUMERIC and (t.is_wide(one.type) or t.is_wide(other.type))):
        return False
    return left == right or {left, right} <= _INTEGERS or {left, right} <= _STRINGS


def _has_rel(scalar: ir.Scalar) -> bool:
    return next(outermost_relations((scalar,)), None) is not None


def _uses_columns(scalar: ir.Scalar) -> bool:
    return next(column_ids(scalar), None) is not None


def _filtered(rel: ir.Rel, conditions: Sequence[ir.Scalar]) -> ir.Rel:
    kept = [condition for condition in conditions if not is_volatile(condition)]
    for condition in kept:
        rel = ir.Filter(input=rel, condition=condition, fields=rel.fields)
    return rel


def is_closed(rel: ir.Rel) -> bool:
    """Whether `rel` is a query by itself that may be run twice: it refers to nothing around it, and gives the same rows
    each time."""
    own: set[int] = set()
    used: set[int] = set()
    tables: set[int] = set()
    read: set[int] = set()
    for node in walk(rel):
        if isinstance(node, ir.ColumnRef):
            used.add(node.id)
        elif isinstance(node, ir.CteScan):
            read.add(node.cte)
            own.update(field.id for field in node.fields)
        elif isinstance(node, ir.With):
            tables.update(table.id for table in node.tables)
        elif isinstance(node, (ir.SystemScan, ir.ProjectSet, ir.SessionValue, ir.LockRows)):
            return False
        elif isinstance(node, ir.FunctionCall):
            own.update(field.id for field in node.fields)
        elif hasattr(node, "fields"):
            own.update(field.id for field in node.fields)
            if isinstance(node, ir.FunctionScan) and node.ordinality is not None:
                own.add(node.ordinality)
    # Those of negative ids are at hand.
    return used <= own and all(cte in tables or cte < 0 for cte in read) and not is_volatile(rel)


def columns_of(keys: Mapping[int, str], source: KeySource) -> dict[str, int]:
    """The places of the source's exprs by the physical column that they are keys of."""
    return {keys[field]: place for place, field in enumerate(source.fields) if field in keys}
