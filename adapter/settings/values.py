"""Session settings: parsing and checking of values, and the values that a session has.

The values are immutable maps, so a transaction keeps the reference it started with and rollback restores it. Three
layers, the later one wins: the session's defaults (server configuration, then what the client said at start-up),
what SET changed, and what SET LOCAL changed until the transaction's end.

Values are kept in the form that SHOW prints (canonical text). Rules and messages are PostgreSQL's (guc.c).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from immutables import Map

from adapter.settings.catalogue import BY_NAME, SETTINGS, Setting
from adapter.settings.identity import BOOTSTRAP_SUPERUSER, Identity
from planner.catalog_data.content import columns
from planner.catalog_data.encodings import canonical_name, is_convertible
from planner.common_errors import unknown_setting
from planner.errors import (
    CantChangeRuntimeParam,
    FeatureNotSupported,
    InvalidName,
    InvalidParameterValue,
    ObjectNotInPrerequisiteState,
    SqlError,
)
from planner.values.datetimes.interval_input import parse_interval
from planner.values.datetimes.time_zones import named_zone

_BOOLS = {"on": "on", "true": "on", "yes": "on", "1": "on", "off": "off", "false": "off", "no": "off", "0": "off"}
_MEMORY_UNITS = {"B": Decimal(1) / 1024, "kB": Decimal(1), "MB": Decimal(1024), "GB": Decimal(1024**2)}
_MEMORY_UNITS["TB"] = Decimal(1024**3)
_TIME_UNITS = {
    "us": Decimal("0.001"),
    "ms": Decimal(1),
    "s": Decimal(1000),
    "min": Decimal(60_000),
    "h": Decimal(3_600_000),
    "d": Decimal(86_400_000),
}
_UNIT_HINTS = {
    "memory": 'Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".',
    "time": 'Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".',
}
_NUMBER = re.compile(r"\s*([+-]?(?:0x[0-9a-f]+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?))\s*([A-Za-z]*)\s*", re.IGNORECASE)
_CUSTOM_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)+")


_SPARK = "spark."

_NOT_TRACKED = frozenset({"pg_stat_statements.save", "pg_stat_statements.track_planning"})
"""What is not counted apart, or not kept."""


def lookup(name: str) -> Setting | None:
    """The setting called `name` (any case), a placeholder for a custom one (`a.b`), or None."""
    known = BY_NAME.get(name.lower())
    if known is not None:
        return known
    return _placeholder(name) if _CUSTOM_NAME.fullmatch(name) and not _is_of_spark(name) else None


def _is_of_spark(name: str) -> bool:
    return name.lower().startswith(_SPARK)


def _placeholder(name: str) -> Setting:
    return Setting(
        name=name, type="string", default="", context="user", category="Customized Options", description="",
    )  # fmt: skip


def require_setting(name: str) -> Setting:
    """The setting called `name`; raises 42704 when there is none."""
    setting = lookup(name)
    if setting is None:
        if _is_of_spark(name):
            raise InvalidName(
                f'invalid configuration parameter name "{name}"',
                detail='"spark" is a reserved prefix.',
                hint="Sessions set those that pg_settings lists; others are the application's, which the server was "
                "started with (--spark-conf).",
            )
        if "." in name:
            raise InvalidName(
                f'invalid configuration parameter name "{name}"',
                detail="Custom parameter names must be two or more simple identifiers separated by dots.",
            )
        raise unknown_setting(name)
    return setting


def check_changeable(setting: Setting, *, at_start: bool = False) -> None:
    """Raise 55P02 unless a session may change `setting` (`at_start`: in its start-up packet)."""
    match setting.context:
        case "internal":
            raise CantChangeRuntimeParam(f'parameter "{setting.name}" cannot be changed')
        case "postmaster":
            raise CantChangeRuntimeParam(f'parameter "{setting.name}" cannot be changed without restarting the server')
        case "sighup":
            raise CantChangeRuntimeParam(f'parameter "{setting.name}" cannot be changed now')
        case "backend" | "superuser-backend" if not at_start:
            raise CantChangeRuntimeParam(f'parameter "{setting.name}" cannot be set after connection start')
        case _:
            return


def canonical_value(setting: Setting, text: str, current: str | None = None) -> str:
    """`text` as SHOW would print it once set.

    `current` is the present value, which DateStyle builds upon. Raises 22023 when the value is not valid.
    """
    match setting.type:
        case "bool":
            value = _bool_value(setting, text)
            if value == "on" and setting.name in _NOT_TRACKED:
                raise FeatureNotSupported(f'parameter "{setting.name}" cannot be enabled')
            if value == "on" and setting.name == "default_with_oids":
                raise FeatureNotSupported("tables declared WITH OIDS are not supported")
            return value
        case "integer":
            return _number_value(setting, text, integer=True)
        case "real":
            return _number_value(setting, text, integer=False)
        case "enum":
            return _enum_value(setting, text)
        case _:
            return _string_value(setting, text, current)


def _invalid(setting: Setting, text: str, *, detail: str | None = None, hint: str | None = None) -> Exception:
    # Enums are called as the statement called them, which is in lower case.
    name = setting.name.lower() if setting.type == "enum" else setting.name
    return InvalidParameterValue(f'invalid value for parameter "{name}": "{text}"', detail=detail, hint=hint)


def _bool_value(setting: Setting, text: str) -> str:
    lowered = text.strip().lower()
    if lowered in _BOOLS:
        return _BOOLS[lowered]
    for word, value in (("true", "on"), ("false", "off"), ("yes", "on"), ("no", "off")):
        if lowered and word.startswith(lowered):
            return value
    if lowered == "of":
        return "off"
    raise InvalidParameterValue(f'parameter "{setting.name}" requires a Boolean value')


def _enum_value(setting: Setting, text: str) -> str:
    lowered = text.lower()
    for value in setting.values:
        if value == lowered:
            return value
    # PostgreSQL's boolean-like enums also take these spellings.
    if {"on", "off"} <= set(setting.values) and lowered in _BOOLS:
        return _BOOLS[lowered]
    raise _invalid(setting, text, hint=f"Available values: {', '.join(setting.values)}.")


def _number_value(setting: Setting, text: str, *, integer: bool) -> str:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise _invalid(setting, text)
    digits, unit = match.groups()
    try:
        amount = Decimal(int(digits, 16)) if digits.lower().startswith(("0x", "-0x", "+0x")) else Decimal(digits)
    except (InvalidOperation, ValueError) as error:
        raise _invalid(setting, text) from error
    if unit:
        amount = _convert(setting, text, amount, unit)
    if integer:
        amount = amount.to_integral_value(rounding="ROUND_HALF_EVEN")
    low, high = setting.minimum, setting.maximum
    if low is not None and high is not None and not Decimal(low) <= amount <= Decimal(high):
        shown = f"{amount} {setting.unit}" if setting.unit else f"{amount}"
        bounds = f"{_plain(Decimal(low), integer)} .. {_plain(Decimal(high), integer)}"
        raise InvalidParameterValue(f'{shown} is outside the valid range for parameter "{setting.name}" ({bounds})')
    return show_number(setting, amount)


def _plain(amount: Decimal, integer: bool) -> str:
    return str(int(amount)) if integer or amount == amount.to_integral_value() else f"{float(amount):g}"


def _convert(setting: Setting, text: str, amount: Decimal, unit: str) -> Decimal:
    if setting.unit in _MEMORY_UNITS:
        units, hint = _MEMORY_UNITS, _UNIT_HINTS["memory"]
    elif setting.unit in _TIME_UNITS:
        units, hint = _TIME_UNITS, _UNIT_HINTS["time"]
    else:
        raise _invalid(setting, text)
    if unit not in units:
        raise _invalid(setting, text, hint=hint)
    return amount * units[unit] / units[setting.unit]


def show_number(setting: Setting, amount: Decimal) -> str:
    """`amount`, in the setting's unit, as SHOW prints it: in the largest unit that divides it evenly."""
    units = _MEMORY_UNITS if setting.unit in _MEMORY_UNITS else _TIME_UNITS if setting.unit in _TIME_UNITS else None
    if units is None or setting.unit is None or amount <= 0:
        return _plain(amount, setting.type == "integer")
    base = amount * units[setting.unit]
    for unit, size in sorted(units.items(), key=lambda item: -item[1]):
        if base % size == 0:
            return f"{int(base / size)}{unit}"
    return f"{_plain(amount, setting.type == 'integer')}{setting.unit}"


@lru_cache(maxsize=1024)
def number_of(setting_name: str, shown: str) -> int:
    """The plain number, in the setting's own unit, of a value in SHOW's form."""
    setting = BY_NAME[setting_name.lower()]
    match = _NUMBER.fullmatch(shown)
    if match is None:
        raise _invalid(setting, shown)
    amount = Decimal(match[1])
    return int(_convert(setting, shown, amount, match[2]) if match[2] else amount)


def raw_value(setting: Setting, shown: str) -> str:
    """The value as pg_settings.setting has it: numbers without unit."""
    if setting.unit is None or setting.type not in ("integer", "real"):
        return shown
    match = _NUMBER.fullmatch(shown)
    if match is None:
        return shown
    amount = Decimal(match[1])
    return _plain(_convert(setting, shown, amount, match[2]) if match[2] else amount, setting.type == "integer")


def _string_value(setting: Setting, text: str, current: str | None) -> str:
    match setting.name:
        case "DateStyle":
            return _date_style(setting, text, current or setting.default)
        case "TimeZone":
            return time_zone_name(setting, text)
        case "client_encoding":
            return _client_encoding(setting, text)
        case "application_name":
            return "".join(c if 32 <= ord(c) < 127 else "?" for c in text)[:63]
        case "seed":
            return _seed(text)
        case "default_table_access_method":
            return _table_access_method(setting, text)
        case _:
            return text


def _table_access_method(setting: Setting, text: str) -> str:
    if not text:
        raise _invalid(setting, text, detail=f"{setting.name} cannot be empty.")
    if text == setting.default:
        return text
    if text in columns("pg_am")["amname"]:
        raise ObjectNotInPrerequisiteState(f'access method "{text}" is not of type TABLE')
    raise _invalid(setting, text, detail=f'Table access method "{text}" does not exist.')


def _seed(text: str) -> str:
    try:
        is_inside = -1 <= float(text) <= 1
    except ValueError:
        raise InvalidParameterValue('parameter "seed" requires a numeric value') from None
    if not is_inside:
        raise InvalidParameterValue(f'{float(text):g} is outside the valid range for parameter "seed" (-1 .. 1)')
    return text


def _date_style(setting: Setting, text: str, current: str) -> str:
    """What is said of the style and of the order, each once, and of what is not said the present one
    (check_datestyle)."""
    style, order = (part.strip() for part in current.split(","))
    styles: list[str] = []
    orders: list[str] = []
    for raw in text.split(","):
        word = raw.strip().strip('"').lower()
        said_style, said_order = _style_of(word), _order_of(word)
        if said_style is not None:
            styles.append(said_style)
            if said_style == "German" and not orders:
                order = "DMY"
        elif said_order is not None:
            orders.append(said_order)
        elif word == "default":
            usual_style, usual_order = (part.strip() for part in setting.default.split(","))
            style, order = (styles or [usual_style])[-1], (orders or [usual_order])[-1]
        else:
            raise _invalid(setting, text, detail=f'Unrecognized key word: "{word}".')
    if len(set(styles)) > 1 or len(set(orders)) > 1:
        raise _invalid(setting, text, detail='Conflicting "datestyle" specifications.')
    return f"{(styles or [style])[-1]}, {(orders or [order])[-1]}"


def _style_of(word: str) -> str | None:
    return "Postgres" if word.startswith("postgres") else {"iso": "ISO", "sql": "SQL", "german": "German"}.get(word)


def _order_of(word: str) -> str | None:
    if word.startswith("euro"):
        return "DMY"
    if word.startswith("noneuro"):
        return "MDY"
    return {"ymd": "YMD", "dmy": "DMY", "mdy": "MDY", "us": "MDY"}.get(word)


def _client_encoding(setting: Setting, text: str) -> str:
    name = canonical_name(text)
    if name is None:
        raise _invalid(setting, text)
    if not is_convertible(name):
        raise FeatureNotSupported(
            f'invalid value for parameter "{setting.name}": "{text}"',
            detail=f"Conversion between {name} and UTF8 is not supported.",
        )
    return name


_INTERVAL = re.compile(r"interval\s+'([^']*)'", re.IGNORECASE)
_HOURS = re.compile(r"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|nan|inf(inity)?)", re.IGNORECASE)


def time_zone_name(setting: Setting, text: str) -> str:
    """The canonical spelling of a time zone (check_timezone). A number of hours or the text of an interval constant is
    a distance east of Greenwich and becomes PostgreSQL's own POSIX form (`5` is `<+05>-05`); all else is a name."""
    written = _INTERVAL.fullmatch(text.strip())
    if written is not None:
        return _distance(setting, text, _interval_seconds(setting, text, written[1]))
    if _HOURS.fullmatch(text) is not None:
        hours = float(text)
        return _distance(setting, text, int(hours * 3600) if math.isfinite(hours) else None)
    zone = None if text[:8].lower() == "interval" else named_zone(text)
    if zone is None:
        raise _invalid(setting, text)
    if zone.offset is not None and zone.offset.seconds % 60:
        raise InvalidParameterValue(
            f'time zone "{text}" appears to use leap seconds', detail="PostgreSQL does not support leap seconds."
        )
    return zone.name


def _distance(setting: Setting, text: str, seconds: int | None) -> str:
    if seconds is None or abs(seconds) >= 86_400:
        raise _invalid(setting, text, detail="UTC timezone offset is out of range.")
    sign, reverse = ("-", "+") if seconds < 0 else ("+", "-")
    minutes, rest = divmod(abs(seconds), 60)
    digits = f"{minutes // 60:02d}"
    if minutes % 60 or rest:
        digits += f":{minutes % 60:02d}"
    if rest:
        digits += f":{rest:02d}"
    return f"<{sign}{digits}>{reverse}{digits}"


def _interval_seconds(setting: Setting, text: str, written: str) -> int:
    try:
        value = parse_interval(written)
    except SqlError:
        raise _invalid(setting, text) from None
    if value.months or value.days:
        unit = "months" if value.months else "days"
        raise _invalid(setting, text, detail=f"Cannot specify {unit} in time zone interval.")
    return int(value.micros / 1_000_000)


@lru_cache(maxsize=1024)
def split_list(value: str) -> tuple[str, ...]:
    """The names in a list setting's value (search_path): unquoted ones folded to lower case."""
    names: list[str] = []
    for match in re.finditer(r'\s*(?:"((?:[^"]|"")*)"|([^",\s][^",]*))\s*(?:,|$)', value):
        quoted, plain = match.groups()
        names.append(quoted.replace('""', '"') if quoted is not None else plain.strip().lower())
    return tuple(names)


IDENTITY_SETTINGS = ("role", "session_authorization", "is_superuser")
"""The settings that say who the session acts as."""

DEFAULTS: Map[str, str] = Map(
    {
        setting.name: canonical_value(setting, setting.default)
        if setting.type in ("integer", "real")
        else setting.default
        for setting in SETTINGS
    }
)
BUILT_IN, CONFIGURATION_FILE, COMMAND_LINE = "default", "configuration file", "command line"
OF_THE_SERVER = frozenset({BUILT_IN, CONFIGURATION_FILE, COMMAND_LINE})
"""The sources of what the server's sessions begin with."""

REPORTED: tuple[str, ...] = tuple(setting.name for setting in SETTINGS if setting.reported)


@dataclass(frozen=True, slots=True)
class SettingValues(Mapping[str, str]):
    """The settings of a session at one moment, by canonical name. Immutable; each change gives a new value."""

    base: Map[str, str] = DEFAULTS
    session: Map[str, str] = field(default_factory=Map)
    local: Map[str, str] = field(default_factory=Map)
    flat: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """The values in force, the three layers as one plain mapping: statements look up dozens, and they change seldom."""
    sources: Map[str, str] = field(default_factory=Map)
    """Where defaults that are none of the server's own come from: `client`, `command line`, `database`, ..."""
    session_identity: Identity = BOOTSTRAP_SUPERUSER
    local_identity: Identity | None = None
    """As SET LOCAL ROLE has it until the transaction's end."""
    identity: Identity = field(init=False)
    """Who the session acts as."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "flat", {**self.base, **self.session, **self.local})
        object.__setattr__(self, "identity", self.local_identity or self.session_identity)

    def __getitem__(self, name: str) -> str:
        return self.flat[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.flat)

    def __len__(self) -> int:
        return len(self.flat)

    def find(self, name: str) -> Setting:
        """The setting called `name` (any case). Raises 42704 also for a custom one that was never set."""
        known = BY_NAME.get(name.lower())
        if known is not None:
            return known
        spelled = self._spelled(name)
        if spelled is None:
            raise unknown_setting(name)
        return _placeholder(spelled)

    def find_or_add(self, name: str) -> tuple[Setting, SettingValues]:
        """The setting called `name` (any case), and the values in which it has a default: a custom one is known from
        when it is first set or reset, under the name that it had then. Raises 42704."""
        setting = require_setting(name)
        if setting.name in self.base:
            return setting, self
        spelled = self._spelled(name)
        if spelled is not None:
            return _placeholder(spelled), self
        return setting, self.with_default(setting.name, setting.default)

    def _spelled(self, name: str) -> str | None:
        wanted = name.lower()
        return next((known for known in self.base if known.lower() == wanted), None)

    def undone_to(self, earlier: SettingValues) -> SettingValues:
        """After a rollback to `earlier`; the custom settings that are known stay so, and so do the defaults."""
        return earlier if earlier.base is self.base else replace(earlier, base=self.base, sources=self.sources)

    def with_default(self, name: str, value: str, source: str | None = None) -> SettingValues:
        """The same with another session default, which RESET returns to; `source` is where it comes from."""
        sources = self.sources if source is None else self.sources.set(name, source)
        return replace(self, base=self.base.set(name, value), sources=sources)

    def with_server_defaults(self, changed: Mapping[str, tuple[str, str]]) -> SettingValues:
        """When the server's own defaults have changed: `changed` has a value and a source by name. Defaults of the
        session's role, database or client stay."""
        changed = {name: of for name, of in changed.items() if self.sources.get(name, BUILT_IN) in OF_THE_SERVER}
        if not changed:
            return self
        base = self.base.update({name: value for name, (value, _) in changed.items()})
        return replace(self, base=base, sources=self.sources.update({name: of for name, (_, of) in changed.items()}))

    def source(self, name: str) -> str:
        """Where the value in force comes from, as pg_settings says it."""
        if name in self.session or name in self.local:
            return "session"
        return self.sources.get(name, BUILT_IN)

    def with_session(self, name: str, value: str) -> SettingValues:
        """After SET."""
        local = self.local.delete(name) if name in self.local else self.local
        return replace(self, session=self.session.set(name, value), local=local)

    def with_local(self, name: str, value: str) -> SettingValues:
        """After SET LOCAL."""
        return replace(self, local=self.local.set(name, value))

    def reset(self, name: str) -> SettingValues:
        """After RESET."""
        session = self.session.delete(name) if name in self.session else self.session
        local = self.local.delete(name) if name in self.local else self.local
        return replace(self, session=session, local=local)

    def reset_all(self) -> SettingValues:
        """After RESET ALL; the identity of the session stays."""
        kept = {name: value for name, value in self.session.items() if name in IDENTITY_SETTINGS}
        return replace(self, session=Map(kept), local=Map(), local_identity=None)

    def acting_as(self, identity: Identity, shown: Mapping[str, str], *, local: bool) -> SettingValues:
        """Acting as someone else, with `local` until the transaction's end; `shown` are the settings that tell so."""
        if local:
            return replace(self, local=self.local.update(shown), local_identity=identity)
        kept = Map({name: value for name, value in self.local.items() if name not in IDENTITY_SETTINGS})
        return replace(
            self, session=self.session.update(shown), local=kept, session_identity=identity, local_identity=None
        )

    def within(self, definer: int) -> SettingValues:
        """Inside a SECURITY DEFINER function of the role `definer`."""
        return replace(self, local_identity=self.identity.within(definer))

    def without_local(self) -> SettingValues:
        """At the end of a transaction."""
        if not self.local and self.local_identity is None:
            return self
        return replace(self, local=Map(), local_identity=None)


@lru_cache(maxsize=256)
def shared(values: SettingValues) -> SettingValues:
    """`values`, or equal ones that were given before: sessions that begin alike hold one and the same, instead of
    7 kB each."""
    return values
