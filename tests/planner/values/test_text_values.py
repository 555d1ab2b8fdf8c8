"""Text input and output of every type, against what PostgreSQL 15 made of the same inputs."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from planner.errors import DatetimeFieldOverflow
from planner.ir.nodes import Interval
from planner.types import types as t
from planner.types.types import SqlType
from planner.values.text_values import format_text, parse_text
from tests.planner.rewrite_inputs import inputs, ours
from tests.planner.support import DATA


def cases() -> list[tuple[str, str, str]]:
    """(type, text, outcome)."""
    blocks = (DATA / "inputs.txt").read_text().split("\n\n")
    found = []
    for (type_name, text), block in zip(inputs(), blocks, strict=True):
        head, _, rest = block.rstrip("\n").partition("\n----\n")
        assert head == f"{type_name}|{text}"
        expected, _, different = rest.partition("\n---- differs\n")
        found.append((type_name, text, different or expected))
    return found


@pytest.mark.parametrize(("type_name", "text", "expected"), cases())
def test_input(type_name: str, text: str, expected: str) -> None:
    assert ours(type_name, text) == expected


@pytest.mark.parametrize(
    ("text", "style", "expected"),
    [
        ("1/2/2024", "ISO, MDY", date(2024, 1, 2)),
        ("1/2/2024", "ISO, DMY", date(2024, 2, 1)),
        ("24/2/1", "ISO, YMD", date(2024, 2, 1)),
        ("2024-01-02", "SQL, DMY", date(2024, 1, 2)),
    ],
)
def test_date_order_of_input(text: str, style: str, expected: date) -> None:
    assert parse_text(text, SqlType(t.DATE), {"DateStyle": style}) == expected


def test_a_wrong_order_is_named_in_the_hint() -> None:
    with pytest.raises(DatetimeFieldOverflow) as caught:
        parse_text("13/1/2024", SqlType(t.DATE), {"DateStyle": "ISO, MDY"})
    assert caught.value.hint == 'Perhaps you need a different "datestyle" setting.'


MOMENT = datetime(2024, 7, 5, 10, 30, 0, 123400, tzinfo=UTC)


@pytest.mark.parametrize(
    ("style", "zone", "expected"),
    [
        ("ISO, MDY", "UTC", "2024-07-05 10:30:00.1234+00"),
        ("ISO, MDY", "America/New_York", "2024-07-05 06:30:00.1234-04"),
        ("ISO, MDY", "Asia/Kolkata", "2024-07-05 16:00:00.1234+05:30"),
        ("SQL, MDY", "UTC", "07/05/2024 10:30:00.1234 UTC"),
        ("SQL, DMY", "Europe/Berlin", "05/07/2024 12:30:00.1234 CEST"),
        ("German, DMY", "UTC", "05.07.2024 10:30:00.1234 UTC"),
        ("Postgres, MDY", "America/New_York", "Fri Jul 05 06:30:00.1234 2024 EDT"),
        ("Postgres, DMY", "UTC", "Fri 05 Jul 10:30:00.1234 2024 UTC"),
    ],
)
def test_timestamptz_styles(style: str, zone: str, expected: str) -> None:
    assert format_text(MOMENT, SqlType(t.TIMESTAMPTZ), {"DateStyle": style, "TimeZone": zone}) == expected


@pytest.mark.parametrize(
    ("style", "value", "expected"),
    [
        ("postgres", Interval(14, 3, 14_706_789_000), "1 year 2 mons 3 days 04:05:06.789"),
        ("postgres", Interval(-14, 3, -1), "-1 years -2 mons +3 days -00:00:00.000001"),
        ("postgres", Interval(0, 0, 0), "00:00:00"),
        ("postgres_verbose", Interval(14, 3, 14_706_789_000), "@ 1 year 2 mons 3 days 4 hours 5 mins 6.789 secs"),
        ("postgres_verbose", Interval(0, -1, 0), "@ 1 day ago"),
        ("postgres_verbose", Interval(0, 0, 0), "@ 0"),
        ("iso_8601", Interval(14, 3, 14_706_789_000), "P1Y2M3DT4H5M6.789S"),
        ("iso_8601", Interval(0, 0, 0), "PT0S"),
        ("iso_8601", Interval(-14, 0, 0), "P-1Y-2M"),
        ("sql_standard", Interval(14, 0, 0), "1-2"),
        ("sql_standard", Interval(14, 3, 14_706_000_000), "+1-2 +3 +4:05:06"),
        ("sql_standard", Interval(0, 3, 14_706_000_000), "3 4:05:06"),
        ("sql_standard", Interval(0, 0, 0), "0"),
    ],
)
def test_interval_styles(style: str, value: Interval, expected: str) -> None:
    assert format_text(value, SqlType(t.INTERVAL), {"IntervalStyle": style}) == expected


def test_time_with_zone() -> None:
    value = parse_text("10:00", SqlType(t.TIMETZ), {"TimeZone": "Asia/Tokyo"})
    assert value == "10:00:00+09"
    assert parse_text("10:00:00.567-03:30", SqlType(t.TIMETZ, 1)) == "10:00:00.6-03:30"
