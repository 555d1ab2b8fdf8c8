"""The rules that hold: of the file that --hba-file names, or the default ones; read again by `reload`.

Without a file, loopback addresses and Unix sockets are trusted until the environment's first superuser has a password;
from then on, and from anywhere else always, SCRAM is asked for. A file that is wrong keeps the server from starting,
and once it runs changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from frontend.authentication.hba import BadLine, Rule, rules, shown_address
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


class BadRules(Exception):
    """A file of rules cannot be used; the message says which and why."""


class RuleBook:
    """See the module's contract. Files are read when it is made, and by `reload`. `tls`: whether there is a
    certificate."""

    def __init__(self, hba_file: Path | None, *, tls: bool) -> None:
        """Raises BadRules."""
        self._hba_file = hba_file
        self._tls = tls
        self._fresh = _good(_parsed(FRESH_RULES, None, tls=tls))
        self._guarded = _good(_parsed(GUARDED_RULES, None, tls=tls))
        self._from_file: Sequence[Rule] = ()
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
        """Read the file again. Raises BadRules, and changes nothing."""
        if self._hba_file is not None:
            self._from_file = _good(self._read(self._hba_file))
            if not self._from_file:
                raise BadRules(f'configuration file "{self._hba_file}" contains no entries')

    def _read(self, path: Path) -> list[Rule | BadLine]:
        try:
            text = read_file(path)
        except (OSError, UnicodeDecodeError) as error:
            raise BadRules(f'could not open configuration file "{path}": {_reason(error)}') from error
        return _parsed(text, path, tls=self._tls)

    def hba_rows(self, *, guarded: bool) -> list[Mapping[str, Any]]:
        """The rows of pg_hba_file_rules: what the file says now. Raises BadRules."""
        if self._hba_file is not None:
            found = self._read(self._hba_file)
        else:
            found = _parsed(GUARDED_RULES if guarded else FRESH_RULES, None, tls=self._tls)
        return [_row(each) for each in found]


def read_file(path: Path) -> str:
    """A file's text. Raises OSError, UnicodeDecodeError."""
    return path.read_text(encoding="utf-8")


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"


def _parsed(text: str, path: Path | None, *, tls: bool) -> list[Rule | BadLine]:
    return rules(lines(path or Path("pg_hba.conf"), text, read_file), tls=tls)


def _good(found: Sequence[Rule | BadLine]) -> Sequence[Rule]:
    """All of them, when all of them are rules. Raises BadRules."""
    bad = [each for each in found if isinstance(each, BadLine)]
    if bad:
        raise BadRules("; ".join(f"line {each.line} of the authentication rules: {each.error}" for each in bad))
    return [each for each in found if isinstance(each, Rule)]


def _row(each: Rule | BadLine) -> Mapping[str, Any]:
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
