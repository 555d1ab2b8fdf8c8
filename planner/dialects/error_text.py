"""An error of ours as text, in which it passes through an engine's exception.

    TG:22P02:invalid input syntax for type integer: "x"␞         # ␞ and ␟ are the ASCII record and unit separators
    TG:22003:bigint out of range␟detail␟hint␞

Without a record separator the text ends with the line. `planner.lowering.engine_errors` reads it.
"""

from __future__ import annotations

END = "\x1e"
_BETWEEN = "\x1f"


def start_of_error(sqlstate: str, message: str) -> str:
    """The text of an error whose message begins so."""
    return f"TG:{sqlstate}:{message}"


def error_text(
    sqlstate: str,
    message: str,
    detail: str | None = None,
    hint: str | None = None,
    *,
    schema: str | None = None,
    datatype: str | None = None,
    constraint: str | None = None,
) -> str:
    """The text of a whole error."""
    parts = [start_of_error(sqlstate, message), *(part or "" for part in (detail, hint, schema, datatype, constraint))]
    while not parts[-1]:
        parts.pop()
    return _BETWEEN.join(parts) + END


def parts_of(text: str) -> list[str]:
    """Of what follows the SQLSTATE: message, detail, hint, schema, data type and constraint, as far as there is one;
    those before it may be empty."""
    return text.split(_BETWEEN)
