"""Maps of pg_ident.conf: which roles a name of another system may come in as (PostgreSQL 15, "User Name Maps").

Pure. A system's name that begins with a slash is a regular expression, and ``\\1`` in the role's stands for what its
first parentheses match.
"""

from __future__ import annotations

from collections.abc import Sequence

import regex
from msgspec import Struct

from frontend.authentication.hba import BadLine
from frontend.authentication.tokens import Field, Line


class Mapping(Struct, frozen=True, kw_only=True):
    """A line of pg_ident.conf."""

    line: int
    map: str
    system_name: str
    role: str

    def allows(self, system_name: str, role: str) -> bool:
        """Whether the system's name may come in as the role by this line."""
        if not self.system_name.startswith("/"):
            return self.system_name == system_name and self.role == role
        match = regex.search(self.system_name[1:], system_name)
        if match is None:
            return False
        first = (match[1] or "") if match.re.groups else ""
        return self.role.replace("\\1", first, 1) == role


def mappings(lines: Sequence[Line]) -> list[Mapping | BadLine]:
    """What the lines of a file say, in order."""
    return [_mapping(line) for line in lines]


def _mapping(line: Line) -> Mapping | BadLine:
    if line.error is not None:
        return BadLine(line=line.number, error=line.error)
    fields: Sequence[Field] = line.fields[:3]
    if any(len(field) > 1 for field in fields):
        return BadLine(line=line.number, error="multiple values in ident field")
    if len(fields) < 3:
        return BadLine(line=line.number, error="missing entry at end of line")
    name, system_name, role = (field[0].text for field in fields)
    if system_name.startswith("/"):
        try:
            groups = regex.compile(system_name[1:]).groups
        except regex.error as error:
            return BadLine(line=line.number, error=f'invalid regular expression "{system_name[1:]}": {error}')
        if "\\1" in role and not groups:
            return BadLine(
                line=line.number,
                error=f'regular expression "{system_name[1:]}" has no subexpressions as requested by backreference in '
                f'"{role}"',
            )
    return Mapping(line=line.number, map=name, system_name=system_name, role=role)


def may_come_in(maps: Sequence[Mapping], name: str | None, system_name: str, role: str) -> bool:
    """Whether who is called so elsewhere may come in as the role. Without a map the names must be the same."""
    if not name:
        return system_name == role
    return any(mapping.map == name and mapping.allows(system_name, role) for mapping in maps)
