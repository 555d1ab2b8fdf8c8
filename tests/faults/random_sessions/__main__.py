"""``python -m tests.faults.random_sessions``: random sessions for long, on one server, on two, and on two workers.

Writes its part of docs/isolation.md when everything has run; the exit status is 1 when something was found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.faults.audit.__main__ import FORMS
from tests.faults.audit.run import Findings, Options
from tests.faults.random_sessions.run import random_sessions
from tests.support.server import ROOT

PAGE = ROOT / "docs" / "isolation.md"
BEGIN, END = "<!-- random sessions -->\n", "<!-- /random sessions -->\n"


def part(forms: Mapping[str, Findings]) -> str:
    """The page's part: what was found, by what it ran on."""
    heads = (
        "on",
        "minutes",
        "acknowledged",
        "failed as they may",
        "cancelled",
        "outcome unknown",
        "kills",
        "violations",
    )
    lines = ["| " + " | ".join(heads) + " |", "| --- " * len(heads) + "|"]
    for name, found in forms.items():
        ends = _ends(found)
        lines.append(
            f"| {name} | {found.seconds / 60:.0f} | {ends['ok']:,} | {ends['failed']:,} | {ends['57014']:,}"
            f" | {ends['unknown']:,} | {found.kills} | {len(found.faults)} |"
        )
    return "\n".join(lines) + "\n"


def _ends(found: Findings) -> Counter[str]:
    ends = Counter[str]()
    for (_, _, outcome), number in found.outcomes.items():
        ends[outcome if outcome in ("ok", "unknown", "gone", "57014") else "failed"] += number
    return ends


@contextmanager
def _folder(keep: Path | None, name: str) -> Iterator[Path]:
    if keep is not None:
        folder = keep / name.replace(" ", "-")
        folder.mkdir(parents=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-sessions-") as temporary:
        yield Path(temporary)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.random_sessions", description=__doc__)
    parser.add_argument("--forms", default=";".join(FORMS), help=f"of these, with semicolons: {'; '.join(FORMS)}")
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=10, help="kills of each form")
    parser.add_argument("--seconds", type=float, default=15.0, help="work before each kill")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, help="a folder for the servers' data and logs, which stay there")
    parser.add_argument("--no-page", action="store_true", help="run, and write nothing down")
    parsed = parser.parse_args()
    forms: dict[str, Findings] = {}
    for name in filter(None, parsed.forms.split(";")):
        servers, workers = FORMS[name]
        options = Options(
            seed=parsed.seed,
            servers=servers,
            clients=parsed.clients,
            rounds=parsed.rounds,
            round_s=parsed.seconds,
            workers=workers,
            disturbed=True,
        )
        with _folder(parsed.keep, name) as folder:
            forms[name] = found = random_sessions(options, folder)
        print(
            f"{name}, seed {parsed.seed}: {found.seconds:.0f} s, {found.kills} kills, {dict(_ends(found))}", flush=True
        )
        for fault in found.faults:
            print(f"    {fault}", flush=True)
    if not parsed.no_page:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(before + BEGIN + "\n" + part(forms) + "\n" + END + rest.partition(END)[2], encoding="utf-8")
    return 1 if any(found.faults for found in forms.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
