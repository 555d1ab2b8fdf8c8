"""docs/clients.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.client_suites.comparison import Compared

_HEAD = """\
# Clients' own tests

Written by `make clients`, which runs the test suites that clients bring along, unmodified, against a PostgreSQL 15 and
against Tidegate as shipped, on the local engine. What counts is what PostgreSQL 15 passes there. Tests that are slow
or measure time, and of what needs more than one server, are left out, or skipped by the suites themselves.
[clients-basic.md](clients-basic.md) has scripted sessions of further tools.

| client | version | PostgreSQL 15 passes | of these here | share |
| --- | --- | --- | --- | --- |
"""
_TABLE = "| feature | PostgreSQL 15 | here | what does not work, and why |\n| --- | --- | --- | --- |\n"


def page(compared: Sequence[Compared]) -> str:
    """The page for suites that have run."""
    return _HEAD + "".join(map(_summary, compared)) + "".join(_section(one) for one in compared if not one.missing)


def _summary(one: Compared) -> str:
    if one.missing:
        return f"| {one.suite.name} | {one.suite.version} | {one.missing} | | |\n"
    wanted, passed = one.counts()
    share = f"{100 * passed / wanted:.1f} %" if wanted else ""
    return f"| {one.suite.name} | {one.suite.version} | {wanted:,} | {passed:,} | {share} |\n"


def _section(one: Compared) -> str:
    """The features of which something fails; the others are named below."""
    some = [feature for feature in one.features if feature.passed != feature.wanted]
    whole = [feature.name for feature in one.features if feature.passed == feature.wanted]
    text = f"\n## {one.suite.name} {one.suite.version}\n\n"
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
