"""Statements about statements: EXPLAIN, prepared statements, cursors."""

from collections.abc import Callable, Mapping

from planner.errors import InvalidCursorDefinition, InvalidParameterValue, SqlSyntaxError
from planner.statements import records as st
from planner.syntax.libpg_query import pb
from planner.syntax.options import option_flag, option_text
from planner.syntax.parse import Parsed, Tree
from planner.types.type_names import resolve_type_name


def _explain(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    flags: dict[str, bool] = {}
    output = "text"
    for option in tree.options:
        element = option.def_elem
        name = element.defname.lower()
        if name == "format":
            output = (option_text(element) or "").lower()
            if output not in ("text", "json", "yaml", "xml"):
                raise InvalidParameterValue(
                    f'unrecognized value for EXPLAIN option "format": "{option_text(element)}"',
                    position=parsed.position(element.location),
                )
        elif name in ("analyze", "verbose", "costs", "buffers", "timing", "summary", "settings", "wal"):
            flags[name] = option_flag(element)
        else:
            raise SqlSyntaxError(
                f'unrecognized EXPLAIN option "{element.defname}"', position=parsed.position(element.location)
            )
    if flags.get("wal") and not flags.get("analyze"):
        raise InvalidParameterValue("EXPLAIN option WAL requires ANALYZE")
    if flags.get("timing") and not flags.get("analyze"):
        raise InvalidParameterValue("EXPLAIN option TIMING requires ANALYZE")
    return st.Explain(query=parsed.part(tree.query), format=output, **flags)  # type: ignore[arg-type]


def _prepare(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    types = tuple(resolve_type_name(node.type_name, parsed).declared_oid for node in tree.argtypes)
    return st.Prepare(name=tree.name, param_types=types, query=parsed.part(tree.query))


def _execute(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.Execute(name=tree.name, count=len(tree.params), statement=parsed)


def _deallocate(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.Deallocate(name=None if tree.isall or not tree.name else tree.name)


_CURSOR_BINARY, _CURSOR_SCROLL, _CURSOR_NO_SCROLL, _CURSOR_INSENSITIVE, _CURSOR_HOLD = 1, 2, 4, 8, 32


def _declare(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    options = tree.options
    if options & _CURSOR_SCROLL and options & _CURSOR_NO_SCROLL:
        raise InvalidCursorDefinition("cannot specify both SCROLL and NO SCROLL")
    if options & _CURSOR_INSENSITIVE and options & 16:
        raise InvalidCursorDefinition("cannot specify both INSENSITIVE and ASENSITIVE")
    if tree.query.select_stmt.HasField("into_clause"):
        raise SqlSyntaxError(
            "SELECT ... INTO is not allowed here",
            position=parsed.position(tree.query.select_stmt.into_clause.rel.location),
        )
    scroll = True if options & _CURSOR_SCROLL else False if options & _CURSOR_NO_SCROLL else None
    return st.DeclareCursor(
        name=tree.portalname,
        query=parsed.part(tree.query),
        binary=bool(options & _CURSOR_BINARY),
        scroll=scroll,
        hold=bool(options & _CURSOR_HOLD),
        insensitive=bool(options & _CURSOR_INSENSITIVE),
    )


_FETCH_ALL = 0x7FFFFFFFFFFFFFFF
_DIRECTIONS = {
    pb.FETCH_FORWARD: "forward",
    pb.FETCH_BACKWARD: "backward",
    pb.FETCH_ABSOLUTE: "absolute",
    pb.FETCH_RELATIVE: "relative",
}


def _fetch(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.Fetch(
        name=tree.portalname,
        direction=_DIRECTIONS[tree.direction],  # type: ignore[arg-type]
        count=None if tree.how_many == _FETCH_ALL else tree.how_many,
        move=tree.ismove,
    )


def _close(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.CloseCursor(name=tree.portalname or None)


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "explain_stmt": _explain,
    "prepare_stmt": _prepare,
    "execute_stmt": _execute,
    "deallocate_stmt": _deallocate,
    "declare_cursor_stmt": _declare,
    "fetch_stmt": _fetch,
    "close_portal_stmt": _close,
}
"""By kind of parse tree: what makes its statement."""
