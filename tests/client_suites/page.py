"""docs/clients.md."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence

from tests.client_suites.comparison import Compared
from tests.client_suites.suite import Suite

_HEAD = """\
# Clients' own tests

Written by `make clients`, which runs the test suites that clients bring along, unmodified, against a PostgreSQL 15 and
against Tidegate as shipped, on the local engine. What counts is what PostgreSQL 15 passes there. Tests that are slow or
measure time, and of what needs more than one server, are left out, or skipped by the suites themselves. Of the tests of
postgres.js those run again in a process of their own that have not passed in one with others; replication is none of
what counts there, for PostgreSQL as it comes does not do it either. The second share leaves out what fails for the want
of plpgsql, which Tidegate does not have. All of them together take hours: each says when it ran last.
[clients-basic.md](clients-basic.md) has scripted sessions of further tools.

| client | version | PostgreSQL 15 passes | of these here | share | without plpgsql's | ran |
| --- | --- | --- | --- | --- | --- | --- |
"""
_NOT_RUN = "not run | | | | "
_ROW = re.compile(r"^\| (\S+) \| (\S+) \| (.*?) \|$", re.MULTILINE)
_FEATURE = re.compile(r"^\| \S+ \| (\d+) \| (\d+) \| (.*?) \|$", re.MULTILINE)
_TABLE = "| feature | PostgreSQL 15 | here | what does not work, and why |\n| --- | --- | --- | --- |\n"


def page(suites: Sequence[Suite], compared: Sequence[Compared], before: str) -> str:
    """The page for suites that have run, and for the others what the page `before` has of them in their version: all
    of them together take hours."""
    ran = {one.suite.name: one for one in compared if not one.missing}
    known = _parts(before)
    parts = [
        _part(ran[suite.name]) if suite.name in ran else known.get(_title(suite), (_NOT_RUN, "")) for suite in suites
    ]
    rows = "".join(
        f"| {suite.name} | {suite.version} | {row} |\n" for suite, (row, _) in zip(suites, parts, strict=True)
    )
    return _HEAD + rows + "".join(section for _, section in parts)


def _title(suite: Suite) -> str:
    return f"{suite.name} {suite.version}"


def _parts(text: str) -> dict[str, tuple[str, str]]:
    """What a page has of each suite by its title: its row, and its section."""
    sections = {section.partition("\n")[0]: f"\n## {section}" for section in text.split("\n## ")[1:]}
    rows = _ROW.findall(text.partition("\n## ")[0])
    found = {}
    for name, version, row in rows:
        section, cells = sections.get(f"{name} {version}", ""), row.split(" | ")
        if section:
            found[f"{name} {version}"] = _row(cells[0], cells[1], cells[-1], section), section
    return found


def _row(wanted: str, passed: str, ran: str, section: str) -> str:
    """The figures of a suite; what fails for the want of plpgsql is counted in its section."""
    tests, good = int(wanted.replace(",", "")), int(passed.replace(",", ""))
    others = tests - without_plpgsql(section)
    return f"{wanted} | {passed} | {_share(good, tests)} | {_share(good, others)} | {ran}"


def _share(passed: int, wanted: int) -> str:
    return f"{100 * passed / wanted:.1f} %" if wanted else ""


def without_plpgsql(section: str) -> int:
    """How many tests fail for the want of plpgsql, by the reasons that the section gives."""
    found = 0
    for wanted, passed, reasons in _FEATURE.findall(section):
        for reason in reasons.split("; "):
            if "plpgsql" in reason:
                count = re.search(r" \((\d+)\)$", reason)
                found += int(count[1]) if count else int(wanted) - int(passed)
    return found


def _part(one: Compared) -> tuple[str, str]:
    wanted, passed = one.counts()
    ran = datetime.datetime.now(tz=datetime.UTC).date()
    section = _section(one)
    return _row(f"{wanted:,}", f"{passed:,}", f"{ran}", section), section


def _section(one: Compared) -> str:
    """The features of which something fails; the others are named below."""
    some = [feature for feature in one.features if feature.passed != feature.wanted]
    whole = [feature.name for feature in one.features if feature.passed == feature.wanted]
    text = f"\n## {_title(one.suite)}\n\n"
    if some:
        lines = (
            f"| {feature.name} | {feature.wanted} | {feature.passed} | {'; '.join(_reasons(feature.reasons))} |\n"
            for feature in some
        )
        text += _TABLE + "".join(lines)
    if whole:
        text += f"\nAll pass of: {', '.join(whole)}.\n" if some else f"All pass: {', '.join(whole)}.\n"
    return text


def _reasons(reasons: dict[str, int]) -> Iterator[str]:
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        yield f"{reason} ({count})" if count > 1 or len(reasons) > 1 else reason
