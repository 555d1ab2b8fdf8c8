"""Which statements `log_statement` means (PostgreSQL, GetCommandLogLevel in utility.c)."""

from __future__ import annotations

from typing import Literal

from planner.syntax.parse import Parsed

LogLevel = Literal["ddl", "mod", "all"]

_CHANGES = frozenset({"insert_stmt", "update_stmt", "delete_stmt", "merge_stmt", "truncate_stmt"})

_OTHERS = frozenset(
    {"select_stmt", "transaction_stmt", "declare_cursor_stmt", "close_portal_stmt", "fetch_stmt", "notify_stmt",
     "listen_stmt", "unlisten_stmt", "load_stmt", "call_stmt", "do_stmt", "vacuum_stmt", "variable_set_stmt",
     "variable_show_stmt", "discard_stmt", "constraints_set_stmt", "check_point_stmt", "lock_stmt", "reindex_stmt",
     "execute_stmt", "deallocate_stmt", "copy_stmt", "explain_stmt", "prepare_stmt"}
)  # fmt: skip


def log_level(parsed: Parsed) -> LogLevel:
    """The most sparing value of `log_statement` that has the statement logged. What EXECUTE runs is not looked at."""
    if parsed.extension is not None:
        return "all"
    return _level(parsed.kind, parsed.tree)


def _level(kind: str, tree: object) -> LogLevel:
    if kind in _CHANGES:
        return "mod"
    if kind == "copy_stmt":
        return "mod" if getattr(tree, "is_from", False) else "all"
    if kind == "select_stmt":
        return "ddl" if tree.HasField("into_clause") else "all"  # type: ignore[attr-defined]
    if kind in ("explain_stmt", "prepare_stmt"):
        if kind == "explain_stmt" and all(option.def_elem.defname != "analyze" for option in tree.options):  # type: ignore[attr-defined]
            return "all"
        inner = tree.query  # type: ignore[attr-defined]
        name = inner.WhichOneof("node")
        return _level(name, getattr(inner, name))
    return "all" if kind in _OTHERS else "ddl"
