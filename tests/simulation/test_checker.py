"""The checker finds each anomaly in a hand-made history of it, and none where there is none."""

from __future__ import annotations

import random

import pytest

from tests.simulation.checker import (
    Append,
    Operation,
    ReadList,
    ReadRegister,
    Status,
    Transaction,
    Write,
    check,
)

Line = tuple[int, tuple[Operation, ...]]


def concurrent(*transactions: tuple[Operation, ...], statuses: dict[int, Status] | None = None) -> list[Transaction]:
    """Transactions numbered from 1 that all overlap in real time."""
    return [
        Transaction(id=n, operations=operations, status=(statuses or {}).get(n, "ok"), began=0.0, ended=100.0)
        for n, operations in enumerate(transactions, 1)
    ]


def serial(*transactions: tuple[Operation, ...]) -> list[Transaction]:
    """Transactions numbered from 1, each begun after the one before had ended."""
    return [
        Transaction(id=n, operations=operations, began=10.0 * n, ended=10.0 * n + 5.0)
        for n, operations in enumerate(transactions, 1)
    ]


def names(history: list[Transaction], *, linearizable_registers: bool = False) -> set[str]:
    return {anomaly.name for anomaly in check(history, linearizable_registers=linearizable_registers)}


def r(key: str, *values: int) -> ReadList:
    return ReadList(key, values)


def a(key: str, value: int) -> Append:
    return Append(key, value)


def rr(key: str, value: int | None) -> ReadRegister:
    return ReadRegister(key, value)


def w(key: str, value: int) -> Write:
    return Write(key, value)


def test_a_serial_history_is_clean() -> None:
    assert not check(
        serial((a("x", 1),), (r("x", 1), a("x", 2)), (r("x", 1, 2), a("y", 1)), (r("y", 1), r("x", 1, 2), r("z")))
    )
    assert not check(serial((w("x", 1),), (rr("x", 1), w("x", 2)), (rr("x", 2),)), linearizable_registers=True)


def test_g0_dirty_write() -> None:
    history = concurrent((a("x", 1), a("y", 1)), (a("x", 2), a("y", 2)), (r("x", 1, 2), r("y", 2, 1)))
    assert "G0" in names(history)


def test_g0_in_registers() -> None:
    history = concurrent((rr("x", 2), w("x", 3), w("y", 4)), (rr("y", 4), w("y", 5), w("x", 2)))
    assert "G0" in names(history)


def test_g1a_aborted_read() -> None:
    assert names(concurrent((a("x", 1),), (r("x", 1),), statuses={1: "fail"})) == {"G1a"}
    assert names(concurrent((w("x", 1),), (rr("x", 1),), statuses={1: "fail"})) == {"G1a"}


def test_g1b_intermediate_read() -> None:
    assert names(concurrent((a("x", 1), a("x", 2)), (r("x", 1),))) >= {"G1b"}
    assert names(concurrent((w("x", 1), w("x", 2)), (rr("x", 1),))) >= {"G1b"}


def test_g1c_circular_information_flow() -> None:
    assert names(concurrent((a("x", 1), r("y", 1)), (a("y", 1), r("x", 1)))) == {"G1c"}
    assert names(concurrent((w("x", 1), rr("y", 1)), (w("y", 1), rr("x", 1)))) == {"G1c"}


def test_g_single_read_skew() -> None:
    history = concurrent((a("x", 1), a("y", 1)), (r("x"), r("y", 1)))
    assert names(history) == {"G-single"}
    registers = concurrent((rr("x", None), rr("y", None), w("x", 1), w("y", 1)), (rr("x", None), rr("y", 1)))
    assert names(registers) == {"G-single"}


def test_g_nonadjacent_long_fork() -> None:
    history = concurrent((a("x", 1),), (a("y", 1),), (r("x", 1), r("y")), (r("x"), r("y", 1)))
    assert names(history) == {"G-nonadjacent"}


def test_g2_write_skew() -> None:
    history = concurrent((r("x"), r("y"), a("x", 1)), (r("x"), r("y"), a("y", 1)), (r("x", 1), r("y", 1)))
    assert names(history) == {"G2"}
    registers = concurrent((rr("x", None), rr("y", None), w("x", 1)), (rr("x", None), rr("y", None), w("y", 1)))
    assert names(registers) == {"G2"}


def test_lost_update() -> None:
    history = concurrent((r("x"), a("x", 1)), (r("x"), a("x", 2)), (r("x", 1, 2),))
    assert "lost-update" in names(history)
    registers = concurrent((rr("x", None), w("x", 1)), (rr("x", None), w("x", 2)))
    assert "lost-update" in names(registers)


def test_g0_realtime() -> None:
    history = [*serial((a("x", 1),), (a("x", 2),)), Transaction(id=3, operations=(r("x", 2, 1),), began=0, ended=99)]
    assert names(history) == {"G0-realtime"}


def test_g1c_realtime_read_of_the_future() -> None:
    assert names(serial((r("x", 1),), (a("x", 1),))) == {"G1c-realtime"}


def test_g_single_realtime_stale_read() -> None:
    history = serial((a("x", 1),), (r("x"),))
    assert names(history) == {"G-single-realtime"}
    assert names(serial((w("x", 1),), (rr("x", None),))) == {"G-single-realtime"}


def test_g_nonadjacent_realtime() -> None:
    # Each reader misses one append and begins after the other had ended.
    history = [
        Transaction(id=1, operations=(a("x", 1),), began=0, ended=10),
        Transaction(id=2, operations=(a("y", 1),), began=0, ended=10),
        Transaction(id=3, operations=(r("x"), a("p", 3)), began=5, ended=40),
        Transaction(id=4, operations=(r("y"), a("q", 4)), began=5, ended=40),
    ]
    assert names(history) == set()
    history[2] = Transaction(id=3, operations=(r("x"), r("y", 1)), began=5, ended=40)
    history[3] = Transaction(id=4, operations=(r("y"), a("q", 4)), began=11, ended=40)
    assert "G-single-realtime" in names(history)
    fork = [
        Transaction(id=1, operations=(a("x", 1),), began=20, ended=30),
        Transaction(id=2, operations=(a("y", 1),), began=20, ended=30),
        Transaction(id=3, operations=(r("x", 1), a("p", 1)), began=21, ended=22),
        Transaction(id=4, operations=(r("p", 1), r("y")), began=21, ended=40),
        Transaction(id=5, operations=(r("y", 1), a("q", 1)), began=21, ended=22),
        Transaction(id=6, operations=(r("x"),), began=23, ended=40),
    ]
    assert "G-nonadjacent-realtime" in names(fork)


def test_g2_realtime() -> None:
    # Without real time first: each misses the append of the next.
    history = [
        Transaction(id=1, operations=(r("y"), a("x", 1)), began=0, ended=100),
        Transaction(id=2, operations=(r("z"), a("y", 1)), began=0, ended=10),
        Transaction(id=3, operations=(r("x"), a("z", 1)), began=20, ended=30),
    ]
    assert names(history) == {"G2"}
    adjacent = [
        Transaction(id=1, operations=(r("x"), a("y", 1)), began=0, ended=10),
        Transaction(id=2, operations=(r("z"), a("x", 1)), began=0, ended=100),
        Transaction(id=3, operations=(a("w", 1),), began=0, ended=100),
        Transaction(id=4, operations=(a("z", 1), r("v")), began=0, ended=1),
        Transaction(id=5, operations=(a("u", 1),), began=2, ended=100),
        Transaction(id=6, operations=(r("u", 1), r("k")), began=0, ended=100),
    ]
    assert names(adjacent) == set()
    adjacent[0] = Transaction(id=1, operations=(r("x"), a("y", 1)), began=5, ended=10)
    assert "G2-realtime" in names(adjacent)


def test_a_read_that_nobody_wrote() -> None:
    assert names(concurrent((r("x", 7),))) == {"phantom"}


def test_a_value_read_twice() -> None:
    assert "duplicate" in names(concurrent((a("x", 1),), (r("x", 1, 1),)))


def test_reads_that_no_order_explains() -> None:
    history = concurrent((a("x", 1),), (a("x", 2),), (r("x", 1, 2),), (r("x", 2, 1),))
    assert "incompatible-order" in names(history)


def test_a_transaction_sees_its_own_writes() -> None:
    assert names(concurrent((a("x", 1), r("x")))) >= {"internal"}
    assert names(concurrent((w("x", 1), rr("x", None)))) >= {"internal"}
    assert not check(concurrent((r("x"), a("x", 1), r("x", 1))))


def test_a_transaction_in_doubt_may_have_happened_or_not() -> None:
    unread = [
        Transaction(id=1, operations=(a("x", 1),), status="info", began=0.0),
        Transaction(id=2, operations=(r("x"),), began=10.0, ended=20.0),
    ]
    assert not check(unread)
    read_later = [*unread, Transaction(id=3, operations=(r("x", 1),), began=30.0, ended=40.0)]
    assert not check(read_later)
    read_then_not = [*read_later, Transaction(id=4, operations=(r("x"),), began=50.0, ended=60.0)]
    assert "G-single-realtime" in names(read_then_not)


def test_blind_register_writes_are_ordered_by_real_time_when_asked() -> None:
    history = serial((w("x", 1),), (w("x", 2),), (rr("x", 1),))
    assert names(history) == set()
    assert names(history, linearizable_registers=True) == {"G-single-realtime"}


@pytest.mark.parametrize("seed", range(30))
def test_random_serial_executions_are_clean(seed: int) -> None:
    """Transactions executed one after the other never look anomalous, whatever they do."""
    randomness = random.Random(seed)
    lists: dict[str, list[int]] = {key: [] for key in "xyz"}
    registers: dict[str, int | None] = dict.fromkeys("pq")
    history: list[Transaction] = []
    value = 0
    for id in range(60):
        operations: list[Operation] = []
        aborts = randomness.random() < 0.1
        saved = ({key: list(values) for key, values in lists.items()}, dict(registers))
        for _ in range(randomness.randrange(1, 5)):
            value += 1
            match randomness.randrange(4):
                case 0:
                    key = randomness.choice("xyz")
                    operations.append(ReadList(key, tuple(lists[key])))
                case 1:
                    key = randomness.choice("xyz")
                    lists[key].append(value)
                    operations.append(Append(key, value))
                case 2:
                    key = randomness.choice("pq")
                    operations.append(ReadRegister(key, registers[key]))
                case _:
                    key = randomness.choice("pq")
                    registers[key] = value
                    operations.append(Write(key, value))
        if aborts:
            lists, registers = saved
        # Each takes effect at the middle of its interval; the intervals overlap.
        began, ended = id - randomness.random() * 3, id + randomness.random() * 3
        status: Status = "fail" if aborts else "ok"
        history.append(Transaction(id=id, operations=tuple(operations), status=status, began=began, ended=ended))
    assert check(history, linearizable_registers=False) == []


@pytest.mark.parametrize("seed", range(20))
def test_snapshot_isolation_without_validation_is_caught(seed: int) -> None:
    """Transactions that read old snapshots and append without any check lose updates or skew."""
    randomness = random.Random(seed)
    versions: list[dict[str, tuple[int, ...]]] = [dict.fromkeys("xy", ())]
    history: list[Transaction] = []
    for id in range(80):
        snapshot = versions[max(0, len(versions) - 1 - randomness.randrange(3))]
        key, other = randomness.sample("xy", 2)
        operations = (ReadList(key, snapshot[key]), ReadList(other, snapshot[other]), Append(key, id))
        versions.append({**versions[-1], key: (*versions[-1][key], id)})
        history.append(Transaction(id=id, operations=operations, began=0.0, ended=100.0))
    assert {"lost-update", "G2", "G-single"} & names(history)
