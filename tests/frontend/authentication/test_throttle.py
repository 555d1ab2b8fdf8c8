"""What failures cost, and whom."""

from __future__ import annotations

from ipaddress import ip_address

from frontend.authentication.throttle import ADDRESS, LONGEST_DELAY_S, PAIR, ROLE, Throttle

HERE, THERE = ip_address("192.0.2.1"), ip_address("192.0.2.2")


def test_answers_come_later_with_every_failure() -> None:
    throttle = Throttle()
    delays = [throttle.failed(HERE, "r", 0.0) for _ in range(8)]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, LONGEST_DELAY_S, LONGEST_DELAY_S, LONGEST_DELAY_S]
    assert throttle.failed(HERE, "r", 1000.0) == 0.1
    assert throttle.failed(THERE, "r", 0.0) == 0.1


def test_one_address_gets_a_few_tries_at_a_role_and_then_one_now_and_then() -> None:
    throttle = Throttle()
    tries = 0
    for second in range(3600):
        if not throttle.is_refused(HERE, "r", float(second)):
            throttle.failed(HERE, "r", float(second))
            tries += 1
    assert PAIR.failures <= tries <= PAIR.failures + 3600 / PAIR.leak_s + 1
    assert not throttle.is_refused(THERE, "r", 3600.0)
    assert not throttle.is_refused(HERE, "other", 3600.0)


def test_one_address_gets_no_further_with_many_roles() -> None:
    throttle = Throttle()
    tries = 0
    for number in range(1000):
        if not throttle.is_refused(HERE, f"r{number}", 0.0):
            throttle.failed(HERE, f"r{number}", 0.0)
            tries += 1
    assert tries == ADDRESS.failures


def test_many_addresses_get_no_further_with_one_role_and_lock_nobody_out() -> None:
    throttle = Throttle()
    throttle.succeeded(THERE, "r", 0.0)
    tries = 0
    for number in range(1000):
        address = ip_address(f"198.51.{number // 250}.{number % 250}")
        if not throttle.is_refused(address, "r", 1.0):
            throttle.failed(address, "r", 1.0)
            tries += 1
    assert tries == ROLE.failures
    assert throttle.is_refused(HERE, "r", 1.0)
    assert not throttle.is_refused(THERE, "r", 1.0)


def test_an_ipv6_network_is_one_address() -> None:
    throttle = Throttle()
    for number in range(PAIR.failures):
        throttle.failed(ip_address(f"2001:db8::{number:x}"), "r", 0.0)
    assert throttle.is_refused(ip_address("2001:db8::ffff"), "r", 0.0)
    assert not throttle.is_refused(ip_address("2001:db8:0:1::1"), "r", 0.0)


def test_who_gets_in_starts_anew() -> None:
    throttle = Throttle()
    for _ in range(PAIR.failures - 1):
        throttle.failed(HERE, "r", 0.0)
    throttle.succeeded(HERE, "r", 0.0)
    assert throttle.failed(HERE, "r", 0.0) == 0.1
    assert not throttle.is_refused(HERE, "r", 0.0)
