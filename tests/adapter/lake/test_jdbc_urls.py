"""Which URLs servers of other databases may have."""

from __future__ import annotations

import pytest

from adapter.lake.jdbc_urls import address_of
from planner.errors import SqlError


@pytest.mark.parametrize(
    ("url", "name", "path"),
    [
        ("jdbc:postgresql://db.example:5432/shop?sslmode=verify-full&ApplicationName=us", "PostgreSQL", None),
        ("jdbc:mysql://db.example/shop?sslMode=VERIFY_IDENTITY&connectTimeout=500", "MySQL", None),
        ("jdbc:mariadb://[::1]:3306,second:3307/", "MariaDB", None),
        ("jdbc:derby://db.example:1527/a/shop", "Derby", None),
        ("jdbc:derby:/lake/shop", "Derby", "/lake/shop"),
        ("jdbc:sqlite:/lake/shop.db", "SQLite", "/lake/shop.db"),
        ("jdbc:h2:tcp://db.example:9092/~/shop;SCHEMA=APP", "H2", None),
        ("jdbc:h2:ssl://db.example/shop", "H2", None),
        ("jdbc:sqlserver://db.example\\second:1433;databaseName=shop;encrypt=true", "SQL Server", None),
        ("jdbc:sqlserver://;serverName=db.example", "SQL Server", None),
        ("jdbc:oracle:thin:@//db.example:1521/shop", "Oracle", None),
        ("jdbc:oracle:thin:@db.example:1521:shop", "Oracle", None),
        ("jdbc:trino://db.example:8443/lake?SSL=true", "other", None),
    ],
)
def test_addresses(url: str, name: str, path: str | None) -> None:
    found = address_of(url, ["jdbc:trino://db.example:8443/"])
    assert (found.kind.name, found.url, found.path) == (name, url, path)


@pytest.mark.parametrize(
    ("sqlstate", "url"),
    [
        ("22023", "jdbc:postgresql://x/y?socketFactory=a.B"),
        ("22023", "jdbc:postgresql://x/y?%73ocketFactory=a.B"),
        ("22023", "jdbc:postgresql://x/y?user=a"),
        ("22023", "jdbc:mysql://x/y?autoDeserialize=true"),
        ("22023", "jdbc:mysql://x/y?sslMode=DISABLED&%61utoDeserialize=true"),
        ("22023", "jdbc:mysql://x/y?sslMode=DISABLED;autoDeserialize=true"),
        ("22023", "jdbc:mysql://x/y?sslMode=DISABLED &autoDeserialize=true"),
        ("22023", "jdbc:mysql://x/y?allowLoadLocalInfile=true"),
        ("22023", "jdbc:mysql://x/y?Password=b"),
        ("22023", "jdbc:mysql://(host=x,autoDeserialize=true)/y"),
        ("22023", "jdbc:mysql://address=(host=x)(autoDeserialize=true)/y"),
        ("22023", "jdbc:mysql://u:p@x/y"),
        ("22023", "jdbc:mysql://x/y#autoDeserialize=true"),
        ("22023", "jdbc:mysql:loadbalance://x/y"),
        ("22023", "jdbc:mariadb://x/y?serverSslCert=/etc/passwd"),
        ("22023", "jdbc:derby://x/y;create=true"),
        ("22023", "jdbc:derby://x/y;traceFile=/tmp/x"),
        ("22023", "jdbc:derby:/lake/x;create=true"),
        ("42501", "jdbc:derby:x"),
        ("42501", "jdbc:derby:memory:x"),
        ("42501", "jdbc:derby:jar:(/lake/x.jar)x"),
        ("42501", "jdbc:derby:classpath:x"),
        ("42501", "jdbc:sqlite:x.db"),
        ("42501", "jdbc:sqlite::memory:"),
        ("42501", "jdbc:sqlite::resource:http://x/y.db"),
        ("42501", "jdbc:sqlite:file:/lake/x.db?mode=rwc"),
        ("22023", "jdbc:sqlite:/lake/x.db?enable_load_extension=true"),
        ("42501", "jdbc:h2:/lake/x"),
        ("42501", "jdbc:h2:file:/lake/x"),
        ("42501", "jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://x/y'"),
        ("42501", "jdbc:h2:zip:/lake/x.zip!/x"),
        ("22023", "jdbc:h2:tcp://x/y;INIT=SELECT 1"),
        ("22023", "jdbc:h2:tcp://x/y;SCHEMA=A\\;INIT=SELECT 1"),
        ("22023", "jdbc:sqlserver://x;socketFactoryClass=a.B"),
        ("22023", "jdbc:sqlserver://x;databaseName={a;b}"),
        ("22023", "jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(PROTOCOL=tcp)(HOST=x)(PORT=1)))"),
        ("22023", "jdbc:oracle:thin:@ldap://x/y"),
        ("22023", "jdbc:oracle:thin:u/p@x:1/y"),
        ("0A000", "jdbc:oracle:oci:@x"),
        ("0A000", "jdbc:hive2://x/y"),
        ("0A000", "jdbc:trino://db.example/lake"),
        ("0A000", "odbc:x"),
        ("22023", "jdbc:trino://db.example:8443/lake?user=a"),
    ],
)  # fmt: skip
def test_refusals(sqlstate: str, url: str) -> None:
    with pytest.raises(SqlError) as refused:
        address_of(url, ["jdbc:trino://db.example:8443/"])
    assert refused.value.sqlstate == sqlstate
