"""Checks of what the IR promises: see the docstring of planner.ir.nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from planner.ir import nodes as ir
from planner.ir.rewrite import walk
from planner.types.types import BOOL, INT8, RECORD, UNKNOWN

ANY = 2276


def check(rel: ir.Rel) -> list[str]:
    """Everything that is wrong with a bound relation."""
    problems: list[str] = []
    _rel(rel, frozenset(), {}, problems)
    return problems


def _ids(rel: ir.Rel) -> frozenset[int]:
    return frozenset(field.id for field in rel.fields)


def _rel(rel: Any, outer: frozenset[int], ctes: dict[int, int], problems: list[str]) -> None:
    for field in rel.fields:
        if field.type.oid == UNKNOWN:
            problems.append(f"column {field.name} of {type(rel).__name__} is of unknown type")
        if (field.type.oid == 1700) != (field.type.shape is not None) and field.type.oid != 1231:
            problems.append(f"shape of column {field.name} of type {field.type.oid}")
    if len(_ids(rel)) != len(rel.fields):
        problems.append(f"{type(rel).__name__} has one id twice")
    match rel:
        case ir.OneRow() | ir.Scan() | ir.SystemScan():
            return
        case ir.CteScan():
            if rel.cte != ir.RETURNING_ROWS and ctes.get(rel.cte) != len(rel.fields):
                problems.append(f"CteScan of {rel.cte} with {len(rel.fields)} columns, not {ctes.get(rel.cte)}")
        case ir.Values():
            for row in rel.rows:
                if [item.type.oid for item in row] != [field.type.oid for field in rel.fields]:
                    problems.append("a row of Values has other types than its fields")
                _scalars(row, outer, ctes, problems)
        case ir.FunctionScan():
            for function in rel.functions:
                _scalars(function.args, outer, ctes, problems)
        case ir.Project():
            _rel(rel.input, outer, ctes, problems)
            _scalars(rel.exprs, outer | _ids(rel.input), ctes, problems)
            for expr, field in zip(rel.exprs, rel.fields, strict=True):
                if (expr.type.oid, expr.type.shape) != (field.type.oid, field.type.shape):
                    problems.append(f"column {field.name} has type {field.type}, its expression {expr.type}")
        case ir.ProjectSet():
            _rel(rel.input, outer, ctes, problems)
            for function in rel.functions:
                _scalars(function.args, outer | _ids(rel.input), ctes, problems)
        case ir.Filter():
            _rel(rel.input, outer, ctes, problems)
            _boolean(rel.condition, problems)
            _scalars((rel.condition,), outer | _ids(rel.input), ctes, problems)
        case ir.Join():
            _rel(rel.left, outer, ctes, problems)
            _rel(rel.right, outer | _ids(rel.left) if rel.lateral else outer, ctes, problems)
            if rel.fields != rel.left.fields + rel.right.fields:
                problems.append("a join's fields are not left's and right's")
            if rel.condition is not None:
                _boolean(rel.condition, problems)
                _scalars((rel.condition,), outer | _ids(rel.left) | _ids(rel.right), ctes, problems)
        case ir.Aggregate():
            _rel(rel.input, outer, ctes, problems)
            scope = outer | _ids(rel.input)
            _scalars(rel.keys, scope, ctes, problems)
            for call in rel.calls:
                keys = tuple(key.expr for key in call.order_by)
                _scalars((*call.args, *keys), scope, ctes, problems)
                if call.filter is not None:
                    _scalars((call.filter,), scope, ctes, problems)
            expected = [key.type for key in rel.keys] + [call.type for call in rel.calls]
            if [field.type for field in rel.fields[: len(expected)]] != expected:
                problems.append("an aggregate's fields have other types than its keys and calls")
            if len(rel.fields) != len(expected) + len(rel.groupings):
                problems.append("an aggregate's fields are not its keys, calls and groupings")
        case ir.Window():
            _rel(rel.input, outer, ctes, problems)
            scope = outer | _ids(rel.input)
            for window in rel.calls:
                keys = tuple(key.expr for key in window.order_by)
                _scalars((*window.args, *window.partition_by, *keys), scope, ctes, problems)
        case ir.Deduplicate():
            _rel(rel.input, outer, ctes, problems)
            _scalars((*rel.on, *(key.expr for key in rel.order_by)), outer | _ids(rel.input), ctes, problems)
        case ir.Sort():
            _rel(rel.input, outer, ctes, problems)
            _scalars(tuple(key.expr for key in rel.keys), outer | _ids(rel.input), ctes, problems)
        case ir.LockRows():
            _rel(rel.input, outer, ctes, problems)
            if rel.fields != rel.input.fields:
                problems.append("the fields of locked rows are not the input's")
            _scalars(tuple(value for value in (rel.count, rel.offset) if value is not None), outer, ctes, problems)
            strange = [mark for mark in rel.marks if mark.field not in _ids(rel)]
            problems.extend(f"no column has the row ids of {mark!r}" for mark in strange)
        case ir.Limit():
            _rel(rel.input, outer, ctes, problems)
            for value in (rel.count, rel.offset):
                if value is not None:
                    _scalars((value,), outer, ctes, problems)
                    if value.type.oid != INT8:
                        problems.append("LIMIT is not int8")
        case ir.SetOperation():
            for side in (rel.left, rel.right):
                _rel(side, outer, ctes, problems)
                if [field.type for field in side.fields] != [field.type for field in rel.fields]:
                    problems.append("a set operation's side has other types than its output")
        case ir.With():
            inner = dict(ctes)
            for table in rel.tables:
                if table.step is not None:
                    inner[table.id] = len(table.rel.fields)
                    _rel(table.step, outer, inner, problems)
                    if [f.type for f in table.step.fields] != [f.type for f in table.rel.fields]:
                        problems.append("the terms of a recursive query have other types")
                _rel(table.rel, outer, inner, problems)
                inner[table.id] = len(table.rel.fields)
            _rel(rel.body, outer, inner, problems)
        case _:
            problems.append(f"not a relation: {rel!r}")


def _boolean(scalar: Any, problems: list[str]) -> None:
    if scalar.type.oid != BOOL:
        problems.append(f"a condition of type {scalar.type.oid}")


def _scalars(scalars: Iterable[Any], scope: frozenset[int], ctes: dict[int, int], problems: list[str]) -> None:
    for scalar in scalars:
        for node in _own_nodes(scalar):
            _scalar(node, scope, ctes, problems)


def _own_nodes(scalar: Any) -> Iterator[Any]:
    """The nodes of a scalar, without those inside its subqueries' relations."""
    inside: set[int] = set()
    for node in walk(scalar):
        if id(node) in inside:
            continue
        if isinstance(node, (ir.ScalarSubquery, ir.Exists, ir.ArraySubquery, ir.QuantifiedSubquery)):
            inside.update(id(part) for part in walk(node.rel))
        yield node


def _scalar(node: Any, scope: frozenset[int], ctes: dict[int, int], problems: list[str]) -> None:
    if not hasattr(node, "type"):
        return
    if node.type.oid == UNKNOWN:
        problems.append(f"a {type(node).__name__} of unknown type")
    match node:
        case ir.ColumnRef():
            if node.id not in scope:
                problems.append(f"column c{node.id} is not in scope")
        case ir.Call():
            given = tuple(arg.type.oid for arg in node.args)
            wanted = node.signature.args
            if len(wanted) == len(given) and any(w not in (g, ANY) for w, g in zip(wanted, given, strict=True)):
                problems.append(f"{node.signature} called with {given}")
        case ir.ScalarSubquery() | ir.Exists() | ir.ArraySubquery() | ir.QuantifiedSubquery():
            _rel(node.rel, scope, ctes, problems)
        case ir.BoolOp():
            for arg in node.args:
                _boolean(arg, problems)
        case ir.Coalesce() | ir.MinMax():
            if any((arg.type.oid, arg.type.shape) != (node.type.oid, node.type.shape) for arg in node.args):
                problems.append(f"arguments of {type(node).__name__} have other types")
        case ir.Case():
            for condition, result in node.whens:
                _boolean(condition, problems)
                if result.type.oid != node.type.oid or result.type.shape != node.type.shape:
                    problems.append("a result of CASE has another type")
        case ir.Distinct():
            if node.left.type.oid != node.right.type.oid:
                problems.append("the sides of IS DISTINCT FROM have other types")
        case ir.FieldSelect():
            if node.arg.type.oid != RECORD:
                problems.append("a field of what is no record")
        case _:
            return
