"""The URLs of other databases: which ones a server may have, and how the databases behind them are spoken to.

A driver is code in Spark's JVM that does what a URL says, and what URLs can say is much: load a class, run a script,
read or write a local file, send files of this host to a database that asks for them. So a URL is taken apart by a
grammar of its database, narrower than the driver's, and may have the parameters that are listed here and no others;
databases that are files of this host have to lie below the operator's folders. What begins as the operator has
allowed (``--allow-jdbc``) is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from planner.errors import FeatureNotSupported, InsufficientPrivilege, InvalidParameterValue

_HOST = r"(?:[\w.\-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?"
_HOSTS = rf"//{_HOST}(?:,{_HOST})*"
_VALUE = re.compile(r"[\w.:,/+\-]*")
_SECRETS = frozenset({"user", "username", "uid", "password", "pwd", "passwd"})


class Kind(Struct, frozen=True, kw_only=True):
    """A kind of database. `place` is what URLs say between `scheme` and their parameters, which begin with the
    characters `between`; a group ``path`` in it is a file or folder of this host. `drivers` are the classes that are
    tried where the server names none. `properties` are told to each connection, and stand above the URL's."""

    name: str
    scheme: str
    place: str
    between: str = "?&"
    parameters: frozenset[str] = frozenset()
    drivers: tuple[str, ...] = ()
    package: str | None = None
    quote: str = '"'
    properties: tuple[tuple[str, str], ...] = ()
    session: str | None = None
    """What a session there is told when it begins."""
    compares: bool = True
    """Whether it compares numbers as we do: those of columns that are declared to be integers or decimals are ones."""

    written: bool = False
    """Whether dates and times are texts there."""
    has_code: bool = False
    """Whether the files of a database hold code that runs where they are read."""

    @property
    def embedded(self) -> bool:
        """Whether its databases are files of this host."""
        return "(?P<path>" in self.place

    def quoted(self, name: str) -> str:
        """`name` as an identifier there."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote


POSTGRESQL = Kind(
    name="PostgreSQL",
    scheme="jdbc:postgresql:",
    place=r"(?://)?[^?#\s]*",
    parameters=frozenset(
        {
            "applicationname", "connecttimeout", "currentschema", "hostrecheckseconds", "loadbalancehosts",
            "logintimeout", "options", "sockettimeout", "ssl", "sslmode", "sslrootcert", "targetservertype",
            "tcpkeepalive",
        }
    ),
    drivers=("org.postgresql.Driver",),
    package="org.postgresql:postgresql:42.7.7",
)  # fmt: skip

_OF_MYSQL = frozenset(
    {
        "allowpublickeyretrieval", "characterencoding", "connectioncollation", "connecttimeout", "requiressl",
        "sockettimeout", "sslmode", "tcpkeepalive", "tinyint1isbit", "transformedbitisboolean", "usecompression",
        "usessl", "useunicode", "verifyservercertificate", "zerodatetimebehavior",
    }
)  # fmt: skip
_MYSQL_PROPERTIES = (
    # A database could ask for any file of this host, and hand in objects to be made.
    ("allowLoadLocalInfile", "false"),
    ("allowLocalInfile", "false"),
    ("allowUrlInLocalInfile", "false"),
    ("autoDeserialize", "false"),
    ("allowMultiQueries", "false"),
    ("yearIsDateType", "false"),
    # Rows as they are asked for; else the driver holds all of them.
    ("useCursorFetch", "true"),
)

_KINDS = (
    POSTGRESQL,
    Kind(
        name="MySQL",
        scheme="jdbc:mysql:",
        place=rf"{_HOSTS}/[\w$\-]*",
        parameters=_OF_MYSQL,
        drivers=("com.mysql.cj.jdbc.Driver", "org.mariadb.jdbc.Driver"),
        package="com.mysql:mysql-connector-j:9.1.0",
        quote="`",
        properties=_MYSQL_PROPERTIES,
        session="SET time_zone = '+00:00'",
    ),
    Kind(
        name="MariaDB",
        scheme="jdbc:mariadb:",
        place=rf"{_HOSTS}/[\w$\-]*",
        parameters=_OF_MYSQL,
        drivers=("org.mariadb.jdbc.Driver",),
        package="org.mariadb.jdbc:mariadb-java-client:3.5.1",
        quote="`",
        properties=_MYSQL_PROPERTIES,
        session="SET time_zone = '+00:00'",
    ),
    Kind(
        name="Derby",
        scheme="jdbc:derby:",
        place=rf"//{_HOST}/[\w./\-]+",
        between=";;",
        drivers=("org.apache.derby.jdbc.ClientDriver", "org.apache.derby.client.ClientAutoloadedDriver"),
        package="org.apache.derby:derbyclient:10.16.1.1",
    ),
    Kind(
        name="Derby",
        scheme="jdbc:derby:",
        place=r"(?P<path>/(?!/)[^;?#%\s]*)",
        between=";;",
        drivers=("org.apache.derby.jdbc.EmbeddedDriver", "org.apache.derby.iapi.jdbc.AutoloadedDriver"),
        has_code=True,
    ),
    Kind(
        name="SQLite",
        scheme="jdbc:sqlite:",
        place=r"(?P<path>/(?!/)[^;?#%\s]*)",
        drivers=("org.sqlite.JDBC",),
        package="org.xerial:sqlite-jdbc:3.47.1.0",
        properties=(("open_mode", "1"), ("enable_load_extension", "false")),
        compares=False,
        written=True,
    ),
    Kind(
        name="H2",
        scheme="jdbc:h2:",
        place=rf"(?:tcp|ssl):{_HOSTS}/[\w./~\-]+",
        between=";;",
        parameters=frozenset({"ifexists", "schema", "network_timeout"}),
        drivers=("org.h2.Driver",),
        package="com.h2database:h2:2.3.232",
    ),
    Kind(
        name="SQL Server",
        scheme="jdbc:sqlserver:",
        place=r"//(?:[\w.\-]+(?:\\[\w$\-]+)?(?::\d{1,5})?)?",
        between=";;",
        parameters=frozenset(
            {
                "applicationintent", "applicationname", "database", "databasename", "encrypt", "hostnameincertificate",
                "instancename", "logintimeout", "multisubnetfailover", "portnumber", "querytimeout", "servername",
                "sockettimeout", "trustservercertificate",
            }
        ),
        drivers=("com.microsoft.sqlserver.jdbc.SQLServerDriver",),
        package="com.microsoft.sqlserver:mssql-jdbc:12.8.1.jre11",
    ),
    Kind(
        name="Oracle",
        scheme="jdbc:oracle:thin:",
        place=rf"@(?://)?{_HOST}[:/][\w.\-$]+",
        drivers=("oracle.jdbc.OracleDriver",),
        package="com.oracle.database.jdbc:ojdbc11:23.5.0.24.07",
    ),
)  # fmt: skip

_OTHER = Kind(name="other", scheme="jdbc:", place=".*")


class Address(Struct, frozen=True, kw_only=True):
    """What a URL means: a database of a kind, `path` where it is one of this host."""

    kind: Kind
    url: str
    path: str | None = None


def address_of(url: str, allowed: Sequence[str]) -> Address:
    """What `url` means; `allowed` is what URLs may begin with that are taken as they are. Raises 22023, 42501 and
    0A000 for one that a server must not have."""
    if any(part and url.startswith(part) for part in allowed):
        if re.search(rf"[?&;:,(](?:{'|'.join(_SECRETS)})=", url, re.IGNORECASE):
            raise _secret("user or the password")
        return Address(kind=_named(url), url=url)
    known = [kind for kind in _KINDS if url.startswith(kind.scheme)]
    if not known:
        raise FeatureNotSupported(
            f"foreign servers of this URL are not supported: {re.split('[?;@]', url)[0]}",
            hint=f"They begin with {', '.join(dict.fromkeys(kind.scheme for kind in _KINDS))}, or as the server was "
            "told with --allow-jdbc.",
        )
    for kind in known:
        first, more = kind.between[0], kind.between[1]
        begins = re.compile(rf"{re.escape(kind.scheme)}{kind.place}(?=$|{re.escape(first)})")
        found = begins.match(url)
        if found is not None:
            rest = url[found.end() + 1 :]
            _check_parameters(kind, rest.split(more) if rest else [])
            return Address(kind=kind, url=url, path=found.groupdict().get("path"))
    if known[0].name == "H2" or (known[-1].embedded and not url.startswith(f"{known[-1].scheme}//")):
        raise InsufficientPrivilege(
            f'permission denied for a database of this host: "{re.split("[?;]", url)[0]}"',
            hint="Databases of this host are named by an absolute path: jdbc:derby:/path, jdbc:sqlite:/path."
            if known[-1].embedded
            else "H2 is read through a server of its own: jdbc:h2:tcp://host/database.",
        )
    raise InvalidParameterValue('invalid value for option "url"')


def _check_parameters(kind: Kind, parameters: Sequence[str]) -> None:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.lower() in _SECRETS:
            raise _secret(name)
        if name.lower() not in kind.parameters:
            raise InvalidParameterValue(f'invalid parameter "{name}" in option "url"')
        if kind is not POSTGRESQL and not _VALUE.fullmatch(value):
            raise InvalidParameterValue(f'invalid value for parameter "{name}" in option "url"')


def _secret(name: str) -> InvalidParameterValue:
    return InvalidParameterValue(
        f'option "url" must not say the {name}', hint="Say it by CREATE USER MAPPING, whose options are secret."
    )


def _named(url: str) -> Kind:
    """What a URL that the operator allows is for: a kind that we know, without what is known of its files."""
    for kind in _KINDS:
        if url.startswith(kind.scheme) and not kind.embedded:
            return kind
    return next((kind for kind in _KINDS if url.startswith(kind.scheme)), _OTHER)
