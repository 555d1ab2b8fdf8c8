"""Configuration of the server: flags, variables, a TOML file, defaults; the first that says something wins.

Every option has one name: `data_dir` is the flag `--data-dir`, the variable `TIDEGATE_DATA_DIR` and the key `data_dir`
of the file. Values are validated by msgspec against `Configuration`; `ConfigurationError` says which source was wrong
and what it should be. Pure: the caller passes the environment and the parsed flags.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

VARIABLE_PREFIX = "TIDEGATE_"
CONFIG_VARIABLE = "TIDEGATE_CONFIG"
_TEST_VARIABLES = ("TIDEGATE_CRASH_ROUNDS", "TIDEGATE_REWRITE_GOLDEN")
"""Variables of this project's tests, which start servers."""


class ConfigurationError(Exception):
    """An option is wrong; the message names its source and what is expected."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tidegate serve`."""

    data_dir: str = "./tidegate-data"
    """Where everything is stored; made when it does not exist."""
    consensus: str | None = None
    """The consensus store: postgresql://USER@HOST/DATABASE for servers on several hosts; without it SQLite in data_dir,
    for the servers of one host."""
    blob: str | None = None
    """The blob store: a folder or the URL of an object store (s3://BUCKET/PREFIX); without it data_dir/blob."""
    blob_options: dict[str, str] = {}
    """Options of the object store (region, endpoint, access_key_id, ...); its usual variables count too."""
    listen: str = "127.0.0.1:5433"
    """host:port, or several separated by commas. Port 0 lets the system choose."""
    take_over: bool = False
    """Whether to take the listening sockets of the server that runs at the first address on the same data_dir, which
    drains once this one answers. Without one there, nothing is different."""
    take_over_wait_s: Annotated[float, msgspec.Meta(ge=0)] = 2.0
    """How long clients that come during a take-over wait for transactions that the older server still runs."""
    http: str | None = None
    """host:port for HTTP: /metrics for Prometheus, /healthz, /readyz. Nothing listens there without it."""
    workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    """Processes that serve behind the addresses, as one server."""
    spark_master: str = "local[*]"
    """Spark master URL: local[n], spark://..., yarn, k8s://..."""
    spark_remote: str | None = None
    """Spark Connect URL (sc://host:port) instead of a master."""
    spark_start: Literal["eager", "lazy"] = "eager"
    """Whether Spark is started with the server, or by the first query that needs it."""
    spark_conf: dict[str, str] = {}
    """Spark properties."""
    spark_packages: str | None = None
    """Maven packages (group:artifact:version, with commas) that Spark and its executors load, beside those that the
    property spark.jars.packages names."""
    settings: dict[str, str] = {}
    """Defaults of session settings, as SET would take them."""
    settings_of_file: bool = False
    """Whether `settings` are those of the file; no option."""
    max_connections: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None = None
    """Clients served at once; without it what ALTER SYSTEM says, or 200."""
    max_message_bytes: Annotated[int, msgspec.Meta(ge=1 << 16, le=1 << 30)] = 256 << 20
    """Longest query, parameter list or piece of COPY data that a client may send."""
    drain_timeout_s: Annotated[float, msgspec.Meta(ge=0)] = 30.0
    """How long running transactions may take when the server stops."""
    hba_file: str | None = None
    """File with the rules of authentication, in pg_hba.conf's format; without it loopback is trusted until the first
    superuser has a password, and everything else asks for SCRAM."""
    ident_file: str | None = None
    """File with maps of users' names for the methods peer and cert, in pg_ident.conf's format."""
    unix_socket_dir: str | None = None
    """Folder for a Unix socket beside the addresses, named as libpq looks for it (.s.PGSQL.PORT)."""
    superuser_password_file: str | None = None
    """File whose first line is the password of the first superuser, which it gets if it has none."""
    authentication_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 60.0
    """How long a client may take to come in."""
    tls_cert: str | None = None
    """PEM file with the server's certificate chain; together with tls_key it turns TLS on."""
    tls_key: str | None = None
    """PEM file with the certificate's private key."""
    tls_client_ca: str | None = None
    """PEM file with the authorities that sign clients' certificates."""
    event_loop: Literal["uvloop", "asyncio"] = "uvloop"
    """Which event loop serves."""
    allow_path: list[str] = []
    """Local folders below which statements may read and write files; none without it."""
    allow_jdbc: list[str] = []
    """What the URLs of other databases may begin with that are taken as they are, whatever else they say; without it
    those of known databases, with harmless parameters."""
    iceberg_catalog: dict[str, str] = {}
    """The Iceberg REST catalog that published tables are pushed to: uri, warehouse, credential, ... as pyiceberg has
    them, and the database (default postgres) whose tables these are."""
    pruning_audit: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.001
    """Share of the files that reads leave out by statistics which are read all the same, to check the statistics."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is logged, and everything above it."""


_PAIR_OPTIONS = ("spark_conf", "settings", "blob_options", "iceberg_catalog")
_LIST_OPTIONS = ("allow_path", "allow_jdbc")
STORE_OPTIONS = ("data_dir", "consensus", "blob", "blob_options")
"""The options that say where an environment is; `tidegate admin` takes them too."""

OPTION_NAMES = tuple(name for name in Configuration.__struct_fields__ if name != "settings_of_file")


def parse_pairs(items: list[str], source: str) -> dict[str, str]:
    """`name=value` items as a mapping. Raises ConfigurationError."""
    pairs: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(f"{source}: expected name=value, got {item!r}")
        pairs[name.strip()] = value
    return pairs


def spark_properties(configuration: Configuration) -> tuple[tuple[str, str], ...]:
    """The Spark properties, those of `spark_packages` among them."""
    found = dict(configuration.spark_conf)
    packages = [found.get("spark.jars.packages"), configuration.spark_packages]
    if configuration.spark_packages:
        found["spark.jars.packages"] = ",".join(text.strip(" ,") for text in packages if text)
    return tuple(found.items())


def parse_address(text: str, source: str = "listen") -> tuple[str, int]:
    """`host:port` (an IPv6 host in brackets) as its parts. Raises ConfigurationError."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigurationError(f"{source}: expected host:port, got {text!r}")
    return host.strip("[]"), int(port)


def addresses(configuration: Configuration) -> list[tuple[str, int]]:
    """Where to listen. Raises ConfigurationError."""
    return [parse_address(part) for part in configuration.listen.split(",")]


def _from_variables(environment: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    found: dict[str, tuple[Any, str]] = {}
    for name in OPTION_NAMES:
        variable = VARIABLE_PREFIX + name.upper()
        text = environment.get(variable)
        if text is None or text == "":
            continue
        value: Any = text
        if name in _LIST_OPTIONS:
            value = [item.strip() for item in text.split(",") if item.strip()]
        if name in _PAIR_OPTIONS:
            value = parse_pairs([item for item in text.split(",") if item.strip()], variable)
        found[name] = (value, variable)
    return found


def unknown_variables(environment: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """The variables that look like options and are none, each with the option that it is most like, if any."""
    options = [CONFIG_VARIABLE.removeprefix(VARIABLE_PREFIX), *(name.upper() for name in OPTION_NAMES)]
    ours = {VARIABLE_PREFIX + option for option in options}.union(_TEST_VARIABLES)
    unknown = sorted(name for name in environment if name.startswith(VARIABLE_PREFIX) and name not in ours)
    if not unknown:
        return []
    import difflib

    nearest = (difflib.get_close_matches(name.removeprefix(VARIABLE_PREFIX), options, n=1) for name in unknown)
    return [(name, VARIABLE_PREFIX + near[0] if near else None) for name, near in zip(unknown, nearest, strict=True)]


def _from_file(path: Path) -> dict[str, tuple[Any, str]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read configuration file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"configuration file {path}: {error}") from error
    unknown = sorted(set(content) - set(OPTION_NAMES))
    if unknown:
        raise ConfigurationError(f"configuration file {path}: unknown option {unknown[0]!r}")
    found: dict[str, tuple[Any, str]] = {}
    for name, value in content.items():
        if name in _PAIR_OPTIONS and isinstance(value, dict):
            value = {key: _scalar_text(item) for key, item in _flatten(value)}
        found[name] = (value, f"{name} in {path}")
    return found


def _flatten(table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """TOML reads `spark.driver.memory = 1` as nested tables; properties are flat."""
    items: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            items += _flatten(value, f"{prefix}{key}.")
        else:
            items.append((prefix + key, value))
    return items


def _scalar_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


_KINDS = {
    "`bool`": "true or false",
    "`int`": "an integer",
    "`int | null`": "an integer",
    "`float`": "a number",
    "`str`": "text",
    "`str | null`": "text",
    "`object`": "pairs",
}


def _expectation(name: str, error: msgspec.ValidationError) -> str:
    """What msgspec would have accepted, in words."""
    field = next(field for field in msgspec.inspect.type_info(Configuration).fields if field.name == name)  # type: ignore[attr-defined]
    if isinstance(field.type, msgspec.inspect.LiteralType):
        return "expected one of " + ", ".join(map(str, field.type.values))
    text = str(error).split(" - at ")[0].split(", got ")[0]
    for kind, words in _KINDS.items():
        text = text.replace(kind, words)
    return text[:1].lower() + text[1:]


def load_configuration(flags: Mapping[str, Any], environment: Mapping[str, str]) -> Configuration:
    """The effective configuration. `flags` has the options given on the command line (absent or None otherwise), and
    `config`, the file. Raises ConfigurationError."""
    path = flags.get("config") or environment.get(CONFIG_VARIABLE)
    merged: dict[str, tuple[Any, str]] = _from_file(Path(path)) if path else {}
    merged.update(_from_variables(environment))
    for name in OPTION_NAMES:
        value = flags.get(name)
        if value is not None:
            source = "--" + name.replace("_", "-")
            merged[name] = (parse_pairs(value, source) if name in _PAIR_OPTIONS else value, source)
    values = {}
    for name, (value, source) in merged.items():
        try:
            one = msgspec.convert({name: value}, Configuration, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"{source}: {_expectation(name, error)}, got {value!r}") from error
        values[name] = getattr(one, name)
    from_file = path is not None and merged.get("settings", (None, ""))[1] == f"settings in {Path(path)}"
    configuration = Configuration(**values, settings_of_file=from_file)
    if "listen" in merged:
        for part in configuration.listen.split(","):
            parse_address(part, merged["listen"][1])
    if configuration.take_over and addresses(configuration)[0][1] == 0:
        raise ConfigurationError(f"{merged['take_over'][1]} needs a port to listen on")
    if configuration.http is not None:
        parse_address(configuration.http, merged["http"][1])
    if (configuration.tls_cert is None) != (configuration.tls_key is None):
        raise ConfigurationError("tls_cert and tls_key must be given together")
    if configuration.tls_client_ca is not None and configuration.tls_cert is None:
        raise ConfigurationError("tls_client_ca needs tls_cert and tls_key")
    if configuration.spark_remote is not None and "spark_master" in merged:
        raise ConfigurationError(f"{merged['spark_remote'][1]} and {merged['spark_master'][1]} exclude each other")
    return configuration
