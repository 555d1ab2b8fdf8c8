"""What all sessions of a server begin with: built-in values, the server's configuration, and ALTER SYSTEM.

What ALTER SYSTEM has stored is read at the start and by each `use` (SIGHUP, pg_reload_conf()), as PostgreSQL reads
postgresql.auto.conf. It stands above the settings of the configuration file and below those of the command line and of
the server's own options. Parameters that take a restart keep what the server has started with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from adapter.settings.values import (
    COMMAND_LINE,
    CONFIGURATION_FILE,
    SettingValues,
    canonical_value,
    lookup,
    require_setting,
)
from planner.errors import SqlError
from storage.catalog.model import CatalogSnapshot, SystemSetting

log = structlog.get_logger("adapter")

STORED = "postgresql.auto.conf"
"""What PostgreSQL calls the file in which it keeps what ALTER SYSTEM has set."""

_FIRST_LINE = 3
"""Of that file; two lines of comment come before."""

_AT_START = ("backend", "superuser-backend")


class ServerSettings:
    """See the module's contract. `of_file` says whether `given` is of the configuration file; `options` are shown for
    options of the server. Raises 42704 and 22023."""

    def __init__(
        self, given: Mapping[str, str], of_file: bool = False, options: Mapping[str, str] | None = None
    ) -> None:
        self.values = _values(given, of_file, options or {}, ())
        self.pending_restart: frozenset[str] = frozenset()
        """Parameters whose newest value holds from the next start."""
        self.lines: Mapping[str, int] = {}
        """The parameters whose value is that of ALTER SYSTEM, each with its line."""
        self._given = (given, of_file, options or {})

    def start(self, catalog: CatalogSnapshot) -> None:
        """Take what ALTER SYSTEM has stored, at the start."""
        self.values = _values(*self._given, stored_settings(catalog))
        self._find_lines(catalog)

    def use(
        self,
        catalog: CatalogSnapshot,
        given: tuple[Mapping[str, str], bool, Mapping[str, str]] | None = None,
    ) -> dict[str, tuple[str, str]]:
        """Take what is stored now, and the configuration as it is now. What has changed for running sessions: by name
        the value and its source. Raises 42704 and 22023 for the configuration, and changes nothing."""
        wanted = _values(*(given or self._given), stored_settings(catalog))
        self._given = given or self._given
        before, values = self.values, wanted
        pending = set()
        for name, value in before.base.items():
            setting = lookup(name)
            if setting is not None and setting.context == "postmaster" and wanted.base[name] != value:
                log.info("parameter cannot be changed without restarting the server", parameter=name)
                pending.add(name)
                values = values.with_default(name, value, before.source(name))
        self.values, self.pending_restart = values, frozenset(pending)
        self._find_lines(catalog)
        changed = {}
        for name, value in values.base.items():
            of = (value, values.source(name))
            if of == (before.base.get(name), before.source(name)):
                continue
            if value != before.base.get(name):
                log.info("parameter changed", parameter=name, value=value)
            setting = lookup(name)
            if setting is not None and setting.context not in _AT_START:
                changed[name] = of
        return changed

    def _find_lines(self, catalog: CatalogSnapshot) -> None:
        lines = {record.name: _FIRST_LINE + at for at, record in enumerate(stored_settings(catalog))}
        self.lines = {name: line for name, line in lines.items() if self.values.source(name) == CONFIGURATION_FILE}


def stored_settings(catalog: CatalogSnapshot) -> list[SystemSetting]:
    """What ALTER SYSTEM has set, in the order in which it did."""
    return sorted((r for r in catalog.all() if isinstance(r, SystemSetting)), key=lambda record: record.oid)


def file_rows(catalog: CatalogSnapshot, pending: Iterable[str]) -> list[Mapping[str, Any]]:
    """The rows of pg_file_settings, by column name; `pending` are parameters that take a restart."""
    waiting = set(pending)
    return [
        {
            "sourcefile": STORED,
            "sourceline": _FIRST_LINE + at,
            "seqno": at + 1,
            "name": record.name,
            "setting": record.value,
            "applied": record.name not in waiting,
            "error": "setting could not be applied" if record.name in waiting else None,
        }
        for at, record in enumerate(stored_settings(catalog))
    ]


def _values(
    given: Mapping[str, str], of_file: bool, options: Mapping[str, str], stored: Iterable[SystemSetting]
) -> SettingValues:
    values = SettingValues()
    if of_file:
        values = _with(values, given, CONFIGURATION_FILE)
    for record in stored:
        try:
            values = _with(values, {record.name: record.value}, CONFIGURATION_FILE)
        except SqlError as error:
            # Set by a server of another version.
            log.warning("a parameter of ALTER SYSTEM is ignored", parameter=record.name, error=error.message)
    if not of_file:
        values = _with(values, given, COMMAND_LINE)
    return _with(values, options, COMMAND_LINE)


def _with(values: SettingValues, given: Mapping[str, str], source: str) -> SettingValues:
    for name, value in given.items():
        setting = require_setting(name)
        values = values.with_default(setting.name, canonical_value(setting, value), source)
    return values
