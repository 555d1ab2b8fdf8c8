"""OPTIONS (...): which ones there are, and what ALTER makes of those that were given (foreigncmds.c)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from planner.errors import DuplicateObject, FdwInvalidOptionName, UndefinedObject
from planner.statements import foreign as ft
from storage.catalog.outside import Options


def checked_names(options: Options, valid: Collection[str]) -> Options:
    """`options`. HV00D for one that there is not."""
    for name, _ in options:
        if name not in valid:
            raise FdwInvalidOptionName(
                f'invalid option "{name}"', hint=f"Valid options in this context are: {', '.join(sorted(valid))}"
            )
    return options


def altered(options: Options, changes: Sequence[ft.OptionChange]) -> Options:
    """`options` after ADD, SET and DROP of some. 42704, 42710."""
    found = dict(options)
    for change in changes:
        if change.action == "add":
            if change.name in found:
                raise DuplicateObject(f'option "{change.name}" provided more than once')
        elif change.name not in found:
            raise UndefinedObject(f'option "{change.name}" not found')
        if change.action == "drop":
            del found[change.name]
        else:
            found[change.name] = change.value or ""
    return tuple(found.items())
