"""Settings: values as PostgreSQL parses, checks and prints them."""

from __future__ import annotations

import pytest

from adapter.sessions.server import Server
from adapter.settings.values import SettingValues, canonical_value, check_changeable, require_setting, split_list
from planner.errors import SqlError
from tests.adapter.harness import connect


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("work_mem", "1.5MB", "1536kB"),
        ("work_mem", "64", "64kB"),
        ("work_mem", "1GB", "1GB"),
        ("statement_timeout", "10 min", "10min"),
        ("statement_timeout", "1500", "1500ms"),
        ("statement_timeout", "0", "0"),
        ("fast_path_limit", "64MB", "64MB"),
        ("enable_sort", "fal", "off"),
        ("DateStyle", "german", "German, DMY"),
        ("DateStyle", "iso, ymd", "ISO, YMD"),
        ("TimeZone", "europe/berlin", "Europe/Berlin"),
        ("TimeZone", "5", "<+05>-05"),
        ("TimeZone", "-3.5", "<-03:30>+03:30"),
        ("TimeZone", "0", "<+00>-00"),
        ("TimeZone", "-02:00", "-02:00"),
        ("TimeZone", "gmt+4", "GMT+4"),
        ("TimeZone", "est5edt", "EST5EDT"),
        ("TimeZone", "interval '-08:00'", "<-08>+08"),
        ("TimeZone", "zulu", "Zulu"),
        ("client_encoding", "utf-8", "UTF8"),
        ("IntervalStyle", "Postgres_Verbose", "postgres_verbose"),
        ("random_page_cost", "1.10", "1.1"),
        ("extra_float_digits", "3", "3"),
    ],
)
def test_canonical_value(name: str, given: str, shown: str) -> None:
    assert canonical_value(require_setting(name), given, SettingValues().get(name)) == shown


@pytest.mark.parametrize(
    ("name", "given", "sqlstate", "message"),
    [
        ("work_mem", "1 xx", "22023", 'invalid value for parameter "work_mem": "1 xx"'),
        (
            "statement_timeout",
            "-2",
            "22023",
            '-2 ms is outside the valid range for parameter "statement_timeout" (0 .. 2147483647)',
        ),
        (
            "extra_float_digits",
            "99",
            "22023",
            '99 is outside the valid range for parameter "extra_float_digits" (-15 .. 3)',
        ),
        ("enable_sort", "maybe", "22023", 'parameter "enable_sort" requires a Boolean value'),
        ("bytea_output", "x", "22023", 'invalid value for parameter "bytea_output": "x"'),
        ("TimeZone", "nope", "22023", 'invalid value for parameter "TimeZone": "nope"'),
        ("TimeZone", "PST", "22023", 'invalid value for parameter "TimeZone": "PST"'),
        ("TimeZone", "z", "22023", 'invalid value for parameter "TimeZone": "z"'),
        ("TimeZone", "200", "22023", 'invalid value for parameter "TimeZone": "200"'),
        ("TimeZone", "abc5:30:15", "22023", 'time zone "abc5:30:15" appears to use leap seconds'),
        ("DateStyle", "foo", "22023", 'invalid value for parameter "DateStyle": "foo"'),
        ("random_page_cost", "a", "22023", 'invalid value for parameter "random_page_cost": "a"'),
        ("client_encoding", "foo", "22023", 'invalid value for parameter "client_encoding": "foo"'),
        ("client_encoding", "mule_internal", "0A000", 'invalid value for parameter "client_encoding": "mule_internal"'),
    ],
)
def test_refused_value(name: str, given: str, sqlstate: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        canonical_value(require_setting(name), given, SettingValues().get(name))
    assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("server_version", 'parameter "server_version" cannot be changed'),
        ("max_connections", 'parameter "max_connections" cannot be changed without restarting the server'),
    ],
)
def test_what_a_session_may_not_change(name: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        check_changeable(require_setting(name))
    assert (caught.value.sqlstate, caught.value.message) == ("55P02", message)


def test_unknown_names() -> None:
    with pytest.raises(SqlError) as caught:
        require_setting("nope")
    assert (caught.value.sqlstate, caught.value.message) == (
        "42704",
        'unrecognized configuration parameter "nope"',
    )
    assert require_setting("My.Setting").name == "My.Setting"


def test_layers() -> None:
    start = SettingValues().with_default("TimeZone", "Europe/Paris")
    changed = start.with_session("TimeZone", "UTC").with_local("TimeZone", "Asia/Tokyo")
    assert start["TimeZone"] == "Europe/Paris"
    assert changed["TimeZone"] == "Asia/Tokyo"
    assert changed.without_local()["TimeZone"] == "UTC"
    assert changed.reset("TimeZone")["TimeZone"] == "Europe/Paris"
    assert changed.with_session("TimeZone", "GMT")["TimeZone"] == "GMT"


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ('a, "B c", public', ("a", "B c", "public")),
        ('"$user", public', ("$user", "public")),
        ("", ()),
        ('"a,b"', ("a,b",)),
        ("Foo", ("foo",)),
    ],
)
def test_split_list(value: str, names: tuple[str, ...]) -> None:
    assert split_list(value) == names


async def test_sessions_that_begin_alike_share_their_values(server: Server) -> None:
    one, two = await connect(server), await connect(server)
    other = await connect(server, work_mem="7MB")
    assert one.session.state.values is two.session.state.values
    assert other.session.state.values is not one.session.state.values
    await one.run("set work_mem = '5MB'")
    assert [await each.value("show work_mem") for each in (one, two, other)] == ["5MB", "4MB", "7MB"]
