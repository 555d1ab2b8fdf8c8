"""The suite of the matrix of privileges has every case; the runs of suites compare it with the server's answers."""

from __future__ import annotations

from sqllogictest.records import Statement, parse_file
from tests.adapter.access.privilege_matrix import CASES, SUITE, statements


def test_the_suite_has_every_case() -> None:
    recorded = [record.sql for record in parse_file(SUITE) if isinstance(record, Statement)]
    assert recorded == [sql for sql, _ in statements()]


def test_each_missing_privilege_is_an_error() -> None:
    records = [record for record in parse_file(SUITE) if isinstance(record, Statement)]
    outcomes = [record.error for record, (_, is_case) in zip(records, statements(), strict=True) if is_case]
    place = 0
    for sql, needs in CASES:
        tried = outcomes[place : place + 2 + len(needs)]
        place += len(tried)
        refused = [error for error in tried[1:] if error is not None]
        assert len(refused) >= len(needs), sql
