"""What a run tells: a line per file, a diff per failure, JUnit XML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from sqllogictest.runner import FileReport

MAX_DIFF_LINES = 40
"""Of one failure's diff; the rest is counted."""


def summary_line(report: FileReport) -> str:
    """One file's outcome in a line."""
    state = "ok    " if report.ok else "FAILED"
    counts = f"{report.passed} passed, {len(report.failures)} failed, {report.skipped} skipped"
    return f"{state} {report.path}: {counts} ({report.seconds:.1f} s)"


def failure_text(report: FileReport) -> str:
    """Every failure of a file with its statement and difference."""
    parts: list[str] = []
    for failure in report.failures:
        lines = failure.reason.split("\n")
        if len(lines) > MAX_DIFF_LINES:
            lines = [*lines[:MAX_DIFF_LINES], f"... {len(lines) - MAX_DIFF_LINES} more lines"]
        statement = "\n".join(f"    {line}" for line in failure.sql.split("\n"))
        parts.append("\n".join([failure.place, statement, *(f"  {line}" for line in lines), ""]))
    if report.fatal is not None:
        parts.append(f"{report.path}: {report.fatal}\n")
    return "\n".join(parts)


def write_junit(path: Path, reports: Sequence[FileReport]) -> None:
    """A JUnit XML file: a suite per file, a case per failure and one for the rest."""
    root = ElementTree.Element("testsuites")
    for report in reports:
        errors = 1 if report.fatal is not None else 0
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=str(report.path),
            tests=str(report.passed + len(report.failures) + report.skipped + errors),
            failures=str(len(report.failures)),
            errors=str(errors),
            skipped=str(report.skipped),
            time=f"{report.seconds:.3f}",
        )
        ElementTree.SubElement(suite, "testcase", classname=str(report.path), name=f"{report.passed} records passed")
        for failure in report.failures:
            case = ElementTree.SubElement(suite, "testcase", classname=str(report.path), name=failure.place)
            ElementTree.SubElement(case, "failure", message=failure.reason.split("\n")[0]).text = failure.reason
        if report.fatal is not None:
            case = ElementTree.SubElement(suite, "testcase", classname=str(report.path), name="the whole file")
            ElementTree.SubElement(case, "error", message=report.fatal)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
