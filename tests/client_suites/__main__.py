"""``python -m tests.client_suites``: runs the suites that are named, or all of them, and writes docs/clients.md, where
the others keep what they gave when they ran last. Fails when a test that PostgreSQL passes fails for no reason that
`reasons` has.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.client_suites import go, java, node, python
from tests.client_suites.comparison import Compared, compare, unexplained
from tests.client_suites.page import page
from tests.client_suites.suite import Suite
from tests.clients_basic.client import ToolError
from tests.clients_basic.servers import Servers, both_servers, make_place
from tests.support.server import ROOT

SUITES = (*python.SUITES, *go.SUITES, *java.SUITES, *node.SUITES)
PAGE = ROOT / "docs" / "clients.md"
SETTINGS = ("max_prepared_transactions=10", "max_connections=200")
_SHOWN = 800


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when each failure has its reason."""
    names = [suite.name.lower() for suite in SUITES]
    parser = argparse.ArgumentParser(prog="python -m tests.client_suites", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"of {', '.join(names)} (default: all)")
    parser.add_argument("--sources", type=Path, help="a folder with checkouts of clients whose packages have no tests")
    parsed = parser.parse_args(arguments)
    unknown = set(parsed.suites) - set(names)
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    wanted = [suite for suite in SUITES if not parsed.suites or suite.name.lower() in parsed.suites]
    compared = [_compared(suite, parsed.sources) for suite in wanted]
    open_cases = unexplained(compared)
    for name, test, message in open_cases:
        print(f"--- {name}: {test}\n{message.strip()[-_SHOWN:]}")
    PAGE.write_text(page(SUITES, compared, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    tests, passed = (sum(one.counts()[place] for one in compared) for place in (0, 1))
    print(f"{passed} passed, {tests - passed} failed, {len(open_cases)} of them not explained")
    return 1 if open_cases else 0


def _compared(suite: Suite, sources: Path | None) -> Compared:
    """A suite on servers of its own: suites leave roles behind, and settings."""
    checkout = None if sources is None or suite.checkout is None else sources / suite.checkout
    if checkout is not None and not checkout.exists():
        checkout = None
    try:
        installed = suite.install(checkout)
        with tempfile.TemporaryDirectory(prefix="tidegate-clients-") as name:
            folder = Path(name)
            with both_servers(folder, SETTINGS) as servers:
                return _on(suite, folder, servers, installed)
    except ToolError as error:
        print(f"{suite.name}: {error}", flush=True)
        first = str(error).splitlines()[0]
        return Compared(suite, missing="its tests could not be had" if "fetch" in first else first[:120])


def _on(suite: Suite, folder: Path, servers: Servers, installed: Path) -> Compared:
    results = []
    for name, port in servers:
        began = time.monotonic()
        results.append(suite.run(make_place(suite.name, folder / name, port, installed)))
        print(f"{suite.name} on {name}: {len(results[-1])} tests, {time.monotonic() - began:.0f} s", flush=True)
    found = compare(suite, results[0], results[1])
    print("{}: PostgreSQL passes {}, here pass {}".format(suite.name, *found.counts()), flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
