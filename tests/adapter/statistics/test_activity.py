"""What is counted of tables, indexes and databases, added up over processes."""

from __future__ import annotations

from datetime import UTC, datetime

from adapter.statistics.activity import Activity, added_up

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 1, 1, 13, tzinfo=UTC)


def test_processes_are_added_up() -> None:
    one, other = Activity(), Activity()
    one.changed(5, 100, 3, 2, 1)
    other.changed(5, 100, 10, 0, 0)
    other.changed(6, 100, 7, 0, 0)
    one.analyzed(5, 100, NOON)
    other.analyzed(5, 100, LATER)
    other.found(5, 100, 200, 4)
    counted = added_up([*one.rows(), *other.rows()])
    table = counted["r", 5, 100]
    assert (table["n_tup_ins"], table["n_tup_upd"], table["n_tup_del"]) == (13, 2, 1)
    assert (table["analyze_count"], table["last_analyze"], table["last_vacuum"]) == (2, LATER, None)
    assert (table["idx_scan"], table["idx_tup_fetch"]) == (1, 4)
    assert counted["i", 5, 200]["idx_tup_read"] == 4
    assert counted["r", 6, 100]["n_tup_ins"] == 7
    assert counted["d", 5, 5]["tup_inserted"] == 13


def test_a_reset_keeps_what_sessions_add_to() -> None:
    activity = Activity()
    whole = activity.database(5)
    activity.changed(5, 100, 1, 0, 0)
    activity.changed(6, 100, 1, 0, 0)
    activity.forget(5, 0, NOON)
    assert activity.database(5) is whole
    assert (whole.tup_inserted, whole.stats_reset) == (0, NOON)
    assert list(activity.tables) == [(6, 100)]


def test_one_relation_is_forgotten() -> None:
    activity = Activity()
    activity.changed(5, 100, 1, 0, 0)
    activity.changed(5, 101, 1, 0, 0)
    activity.found(5, 100, 200, 1)
    activity.forget(5, 100, NOON)
    assert list(activity.tables) == [(5, 101)]
    assert list(activity.indexes) == [(5, 200)]


def test_what_was_dropped_goes() -> None:
    activity = Activity()
    for table in (100, 101):
        activity.found(5, table, table + 100, 1)
    activity.keep(lambda database, oid: (database, oid) in {(5, 101), (5, 201)})
    assert list(activity.tables) == [(5, 101)]
    assert list(activity.indexes) == [(5, 201)]
