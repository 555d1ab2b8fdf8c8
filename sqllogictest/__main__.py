"""`python -m sqllogictest`: runs .slt files against a server and says what differs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sqllogictest.report import failure_text, summary_line, write_junit
from sqllogictest.runner import FileReport, FileRun, Target

TIDEGATE_LABEL = "tidegate"


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m sqllogictest", description="Runs sqllogictest files over a connection."
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="files, or folders searched for .slt and .test"
    )
    parser.add_argument("--engine", choices=("spark", "local", "auto"), help="SET engine first, and match its label")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5433)
    parser.add_argument("--user", default="postgres")
    parser.add_argument("--dbname", default="postgres")
    parser.add_argument("--label", action="append", default=[], help="a further name for skipif and onlyif")
    parser.add_argument("--complete", action="store_true", help="rewrite the expected results with the actual ones")
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write JUnit XML")
    parser.add_argument("--timeout-s", type=float, default=300.0, help="longest wait for an answer (default 300)")
    parser.add_argument("--same-schema", action="store_true", help="do not give each file a fresh schema")
    return parser


def collect(paths: Sequence[Path]) -> list[Path]:
    """The files named, and those in the folders named."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(one for one in path.rglob("*") if one.suffix in (".slt", ".test"))
        else:
            found.append(path)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the files; 0 when everything passed."""
    parsed = build_parser().parse_args(arguments)
    labels = {"postgresql", "postgres", *parsed.label}
    if parsed.engine is not None:
        labels |= {TIDEGATE_LABEL, parsed.engine}
    target = Target(
        host=parsed.host,
        port=parsed.port,
        user=parsed.user,
        database=parsed.dbname,
        engine=parsed.engine,
        labels=frozenset(labels),
        timeout_s=parsed.timeout_s,
        own_schema=not parsed.same_schema,
    )
    reports: list[FileReport] = []
    for path in collect(parsed.files):
        report = FileRun(path, target, complete=parsed.complete).run()
        reports.append(report)
        sys.stdout.write(summary_line(report) + "\n")
        if not report.ok:
            sys.stdout.write(failure_text(report) + "\n")
        sys.stdout.flush()
    failed = sum(not report.ok for report in reports)
    passed = sum(report.passed for report in reports)
    failures = sum(len(report.failures) for report in reports)
    sys.stdout.write(f"{len(reports)} files, {failed} failed; {passed} records passed, {failures} failed\n")
    if parsed.junit is not None:
        write_junit(parsed.junit, reports)
    return 1 if failed or not reports else 0


if __name__ == "__main__":
    sys.exit(main())
