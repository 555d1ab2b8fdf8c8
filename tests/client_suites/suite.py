"""A suite, and what became of its tests."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.clients_basic.client import Place

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one test; `message` is what it printed when it failed, or why it was skipped."""

    kind: str
    message: str = ""


Results = Mapping[str, Result]
"""By the name of the test, which begins with the feature that it is about and a colon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests of one client. `install` returns the folder of what it needs, from the checkout that it is given or,
    without one, from where its tests are published. Raises ToolError."""

    name: str
    version: str
    install: Callable[[Path | None], Path]
    run: Callable[[Place], Results]
    checkout: str | None = None
    """The name of its folder below `--sources`."""


def of_class(name: str) -> str:
    """The name under which the set-up of a test's class fails, and with it all its tests."""
    feature, _, test = name.partition(": ")
    return f"{feature}: {test.partition(' ')[0]} "


def junit_results(reports: Iterable[Path], feature: Callable[[str], str]) -> dict[str, Result]:
    """What reports in JUnit's form say. `feature` makes a feature of a test's class name."""
    found: dict[str, Result] = {}
    for report in reports:
        # NOTE: what a test runner has just written.
        for case in ElementTree.parse(report).iter("testcase"):
            of = case.get("classname") or ""
            name = f"{feature(of)}: {of.rpartition('.')[2]} {case.get('name')}"
            result = Result(PASSED)
            for child in case:
                text = f"{child.get('message') or ''}\n{child.text or ''}"
                if child.tag in ("failure", "error"):
                    result = Result(FAILED, text)
                elif child.tag == "skipped":
                    result = Result(SKIPPED, text)
            if name not in found or found[name].kind != FAILED:
                found[name] = result
    return found
