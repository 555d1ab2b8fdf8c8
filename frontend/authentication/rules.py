"""The rules that hold: of the file that --hba-file names, or the default ones; and the maps of --ident-file. `reload`
reads them again.

Without a file, loopback addresses and Unix sockets are trusted until the environment's first superuser has a password;
from then on, and from anywhere else always, SCRAM is asked for. A file that is wrong keeps the server from starting,
and once it runs changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from frontend.authentication.hba import BadLine, Rule, TlsUse, rules, shown_address
from frontend.authentication.ident import Mapping, mappings
from frontend.authentication.tokens import lines

FRESH_RULES = """\
# A new environment: nobody has a password yet.
local all all trust
host all all 127.0.0.0/8 trust
host all all ::1/128 trust
host all all all scram-sha-256
"""
GUARDED_RULES = """\
# The superuser has a password.
local all all scram-sha-256
host all all all scram-sha-256
"""


Row: TypeAlias = dict[str, Any]
"""A row of a system relation."""


class BadRules(Exception):
    """A file of rules cannot be used; the message says which and why."""


class RuleBook:
    """See the module's contract. Files are read when it is made, and by `reload`."""

    def __init__(self, hba_file: Path | None, ident_file: Path | None = None, *, tls: TlsUse) -> None:
        """Raises BadRules."""
        self._hba_file = hba_file
        self._ident_file = ident_file
        self._tls = tls
        self._fresh = _good(_parsed(FRESH_RULES, None, tls=tls))
        self._guarded = _good(_parsed(GUARDED_RULES, None, tls=tls))
        self._from_file: Sequence[Rule] = ()
        self.maps: Sequence[Mapping] = ()
        self.reload()

    @property
    def hba_file(self) -> Path | None:
        """Where the rules come from; None for the default ones."""
        return self._hba_file

    def rules(self, *, guarded: bool) -> Sequence[Rule]:
        """The rules that hold. `guarded`: the first superuser has a password."""
        if self._hba_file is not None:
            return self._from_file
        return self._guarded if guarded else self._fresh

    def reload(self) -> None:
        """Read the files again. Raises BadRules, and changes nothing."""
        found: Sequence[Rule] = ()
        if self._hba_file is not None:
            found = _good(self._read(self._hba_file))
            if not found:
                raise BadRules(f'configuration file "{self._hba_file}" contains no entries')
        self.maps, self._from_file = self._good_maps(), found

    def _good_maps(self) -> Sequence[Mapping]:
        maps = self._read_maps()
        bad = [each for each in maps if isinstance(each, BadLine)]
        if bad:
            raise BadRules("; ".join(f"line {each.line} of the user name maps: {each.error}" for each in bad))
        return [each for each in maps if isinstance(each, Mapping)]

    def _read_maps(self) -> list[Mapping | BadLine]:
        if self._ident_file is None:
            return []
        return mappings(lines(self._ident_file, _text(self._ident_file), read_file))

    def _read(self, path: Path) -> list[Rule | BadLine]:
        return _parsed(_text(path), path, tls=self._tls)

    def hba_rows(self, *, guarded: bool) -> list[Row]:
        """The rows of pg_hba_file_rules: what the file says now. Raises BadRules."""
        if self._hba_file is not None:
            found = self._read(self._hba_file)
        else:
            found = _parsed(GUARDED_RULES if guarded else FRESH_RULES, None, tls=self._tls)
        return [_row(each) for each in found]

    def ident_rows(self) -> list[Row]:
        """The rows of pg_ident_file_mappings: what the file says now. Raises BadRules."""
        return [
            {"line_number": each.line, "error": each.error}
            if isinstance(each, BadLine)
            else {
                "line_number": each.line,
                "map_name": each.map,
                "sys_name": each.system_name,
                "pg_username": each.role,
            }
            for each in self._read_maps()
        ]


def _text(path: Path) -> str:
    try:
        return read_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise BadRules(f'could not open configuration file "{path}": {_reason(error)}') from error


def read_file(path: Path) -> str:
    """A file's text. Raises OSError, UnicodeDecodeError."""
    return path.read_text(encoding="utf-8")


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"


def _parsed(text: str, path: Path | None, *, tls: TlsUse) -> list[Rule | BadLine]:
    return rules(lines(path or Path("pg_hba.conf"), text, read_file), tls=tls)


def _good(found: Sequence[Rule | BadLine]) -> Sequence[Rule]:
    """All of them, when all of them are rules. Raises BadRules."""
    bad = [each for each in found if isinstance(each, BadLine)]
    if bad:
        raise BadRules("; ".join(f"line {each.line} of the authentication rules: {each.error}" for each in bad))
    return [each for each in found if isinstance(each, Rule)]


def _row(each: Rule | BadLine) -> Row:
    if isinstance(each, BadLine):
        return {"line_number": each.line, "error": each.error}
    address, netmask = shown_address(each.address)
    return {
        "line_number": each.line,
        "type": each.type,
        "database": [token.text for token in each.databases],
        "user_name": [token.text for token in each.roles],
        "address": address,
        "netmask": netmask,
        "auth_method": each.method,
        "options": [f"{name}={value}" for name, value in each.options] or None,
        "error": each.futile,
    }
