"""``python -m tests.faults.rolling``: rolling restarts under the audit's load, of each form of server.

Writes what came of it into docs/several-servers.md; the exit status is 1 when a client saw more than lost connections.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.faults.audit.run import Findings, Options, audit
from tests.support.server import ROOT

PAGE = ROOT / "docs" / "several-servers.md"
FORMS = {"one server": (1, 1), "two servers": (2, 1), "one server of two workers": (1, 2)}
MARK = "<!-- rolling -->"
END = "<!-- /rolling -->"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.rolling", description=__doc__)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=10, help="restarts of each server")
    parser.add_argument("--seconds", type=float, default=6.0, help="work before each restart")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--no-page", action="store_true", help="run, and write nothing")
    parsed = parser.parse_args()
    forms: dict[str, Findings] = {}
    for name, (servers, workers) in FORMS.items():
        options = Options(
            seed=parsed.seed,
            servers=servers,
            workers=workers,
            clients=parsed.clients,
            rounds=parsed.rounds,
            round_s=parsed.seconds,
            replaces=True,
        )
        with tempfile.TemporaryDirectory(prefix="tidegate-rolling-") as folder:
            forms[name] = found = audit(options, Path(folder))
        print(
            f"{name}, seed {parsed.seed}: {found.acknowledged} acknowledged, {found.replacements} restarts", flush=True
        )
        for fault in found.faults:
            print(f"    {fault}", flush=True)
    if not parsed.no_page:
        text = PAGE.read_text(encoding="utf-8")
        written = f"{MARK}\n\n{table(parsed.clients, forms)}\n{END}"
        PAGE.write_text(re.sub(f"{MARK}.*{END}", lambda _: written, text, flags=re.DOTALL), encoding="utf-8")
    return 1 if any(found.faults for found in forms.values()) else 0


def table(clients: int, forms: Mapping[str, Findings]) -> str:
    """What came of each form."""
    lines = [
        f"`make rolling` has {clients} clients do at random what [the audit](audit.md) does, and compares what they",
        "were told with what is there:",
        "",
        "| on | restarts | acknowledged | not done, connection lost | outcome unknown | violations |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in forms.items():
        ends = Counter[str]()
        for (_, _, outcome), number in found.outcomes.items():
            ends[outcome] += number
        lines.append(
            f"| {name} | {found.replacements} | {ends['ok']:,} | {ends['gone']:,} | {ends['unknown']:,}"
            f" | {len(found.faults)} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
