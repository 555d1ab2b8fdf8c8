"""The page that says what the audit did and found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.faults.audit.run import Findings

_HEAD = """\
# The audit

Written by `make audit`: {clients} clients on one server, on two servers of one environment, and on one server of
two workers do at random what applications rely on, over the wire, while servers are killed with SIGKILL and
started again. What each transaction was told is noted. An auditor reads all tables in one snapshot all the while and
looks for what must not be: two rows of one unique key, a row that refers to nothing, money made or lost, a pair with
nobody on duty. When everybody has stopped, what is there is compared with what was acknowledged: rows, counters, moves,
jobs; every row is looked up by its key, and its key tried again.

Work: unique keys (PRIMARY KEY, NULLS NOT DISTINCT, partial, over an expression, deferred, EXCLUDE), foreign keys (each
action, deferred too), a table in files, transfers (UPDATE, FOR UPDATE, FOR NO KEY UPDATE, reading and then writing),
upserts, one hot row, a queue with SKIP LOCKED, advisory locks, write skew; in single statements and in blocks of READ
COMMITTED, REPEATABLE READ and SERIALIZABLE.

No statement outside a block may fail with `40001`, and on one server no READ COMMITTED block may fail at COMMIT.
"""

_MISTAKES = """\

## Mistakes

Servers with a mistake put into them, which the same audit finds:

"""


def page(clients: int, forms: Mapping[str, Findings], mistakes: Mapping[str, str]) -> str:
    """The page. `forms`: what was found, by what it ran on; `mistakes`: by what is wrong with a server, what of it was
    found first."""
    lines = [_HEAD.format(clients=clients)]
    lines += ["| on | minutes | acknowledged | failed as it may | outcome unknown | kills | looks | violations |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for name, found in forms.items():
        ends = Counter[str]()
        for (_, _, outcome), number in found.outcomes.items():
            ends[outcome if outcome in ("ok", "unknown", "gone") else "failed"] += number
        lines.append(
            f"| {name} | {found.seconds / 60:.0f} | {ends['ok']:,} | {ends['failed']:,} | {ends['unknown']:,}"
            f" | {found.kills} | {found.looks:,} | {len(found.faults)} |"
        )
    for name, found in forms.items():
        lines += ["", f"## On {name}", "", "| work | acknowledged | failed, by SQLSTATE |", "| --- | --- | --- |"]
        for load in sorted({load for load, _, _ in found.outcomes}):
            states = Counter[str]()
            for (of, _, outcome), number in found.outcomes.items():
                if of == load:
                    states[outcome] += number
            failed = ", ".join(f"{state} {n:,}" for state, n in sorted(states.items()) if state[0].isdigit())
            lines.append(f"| {load} | {states['ok']:,} | {failed or 'none'} |")
        lines += [f"\nViolation: {fault}" for fault in found.faults]
    lines += [_MISTAKES + "| mistake | found |", "| --- | --- |"]
    lines += [f"| {name} | {fault} |" for name, fault in mistakes.items()]
    return "\n".join(lines) + "\n"
