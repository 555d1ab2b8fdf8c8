"""``python -m tests.faults.audit``: the long audit of one server, of two, and of one of two workers.

Writes docs/audit.md when everything has run; the exit status is 1 when a rule was broken or a mistake not found.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path

from msgspec.structs import replace

from tests.faults.audit.mutants import MISTAKES
from tests.faults.audit.page import page
from tests.faults.audit.run import Findings, Options, all_loads, audit
from tests.support.server import ROOT

PAGE = ROOT / "docs" / "audit.md"
FORMS = {
    "one server": (1, 1),
    "two servers": (2, 1),
    "one server of two workers": (1, 2),
}
SEEDS_OF_A_MISTAKE = 10


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.audit", description=__doc__)
    parser.add_argument("--forms", default=";".join(FORMS), help=f"of these, with semicolons: {'; '.join(FORMS)}")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=10, help="kills of each form")
    parser.add_argument("--seconds", type=float, default=15.0, help="work before each kill")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--only", default="", help=f"of these, with semicolons: {'; '.join(load.name for load in all_loads())}"
    )
    parser.add_argument("--no-page", action="store_true", help="run, and write no page")
    parsed = parser.parse_args()
    only = tuple(filter(None, parsed.only.split(";")))
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
            only=only,
        )
        forms[name] = found = _run(options)
        print(f"{name}: {found.acknowledged} acknowledged, {found.kills} kills, {len(found.faults)} faults", flush=True)
        for fault in found.faults:
            print(f"    {fault}", flush=True)
    mistakes = {} if only else {mistake.name.replace("_", " "): _first_fault(mistake.name) for mistake in MISTAKES}
    if not only and not parsed.no_page:
        PAGE.write_text(page(parsed.clients, forms, mistakes), encoding="utf-8")
    missed = [name for name, fault in mistakes.items() if not fault]
    print(f"mistakes: {len(mistakes) - len(missed)} found, {len(missed)} missed {missed}")
    return 1 if missed or any(found.faults for found in forms.values()) else 0


def _run(options: Options) -> Findings:
    with tempfile.TemporaryDirectory(prefix="tidegate-audit-") as folder:
        return audit(options, Path(folder))


def _first_fault(name: str) -> str:
    """What the audit says first of a server with the mistake `name`; empty when it finds nothing."""
    mistake = next(mistake for mistake in MISTAKES if mistake.name == name)
    options = Options(
        seed=0, servers=mistake.servers, only=mistake.loads, kills=False, until_fault=True, mistake=mistake.name
    )
    for seed in range(SEEDS_OF_A_MISTAKE):
        faults = _run(replace(options, seed=seed)).faults
        found = next((fault for fault in faults if re.search(mistake.sign, fault)), None)
        if found is not None:
            return found.replace("|", "\\|")[:160]
    return ""


if __name__ == "__main__":
    sys.exit(main())
