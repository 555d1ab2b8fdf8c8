"""Joins that PostgreSQL has not, or takes for others: made its own before they are converted."""

from __future__ import annotations

from typing import Any

from planner.syntax.dialects.names import words

_KINDS = words("INNER OUTER CROSS SEMI ANTI")


def is_plain(join: Any) -> bool:
    """Whether PostgreSQL reads a join as it is meant: any other word is an alias to it. STRAIGHT_JOIN, which says how
    and not what, becomes JOIN."""
    if join.args.get("kind") == "STRAIGHT_JOIN":
        join.set("kind", "INNER")
    return join.args.get("method") in (None, "", "NATURAL") and (join.args.get("kind") or "INNER") in _KINDS


def updates_its_from(update: Any, exp: Any) -> bool:
    """T-SQL's UPDATE, whose target may be one of the tables in FROM, by its alias or its name: PostgreSQL would take it
    for another one beside it, so it is taken out of there. Whether it could."""
    target, first = update.this, update.args["from_"].this
    items = [first, *(join.this for join in first.args.get("joins") or ())]
    tables = [each for each in items if isinstance(each, exp.Table)]
    name = target.name.lower()
    same = [each for each in tables if each.alias.lower() == name] or [
        each for each in tables if each.name.lower() == name and _may_be(each, target)
    ]
    if not same:
        return True
    joins = first.args.get("joins") or []
    apart = all(
        not join.args.get("side") and not join.args.get("using") and not join.args.get("method") for join in joins
    )
    if len(same) > 1 or not apart or any(each.args.get("joins") for each in items[1:]):
        return False
    conditions = [join.args["on"] for join in joins if join.args.get("on")]
    others = [each for each in items if each is not same[0]]
    first.set("joins", None)
    if not same[0].alias and target.db:
        same[0].set("db", target.args["db"])
    update.set("this", same[0])
    if others:
        others[0].set("joins", [exp.Join(this=each) for each in others[1:]])
        update.set("from_", exp.From(this=others[0]))
    else:
        update.set("from_", None)
    if conditions:
        where = update.args.get("where")
        update.set("where", exp.Where(this=exp.and_(*conditions, *([where.this] if where else []))))
    return True


def _may_be(table: Any, target: Any) -> bool:
    return not table.db or not target.db or bool(table.db.lower() == target.db.lower())
