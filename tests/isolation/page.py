"""The page that says which isolation specs give PostgreSQL's output."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

_HEAD = """\
# PostgreSQL's isolation specs

Written by `make isolation`, which runs the specs of PostgreSQL 15 (`src/test/isolation/specs`, from Debian's source
package) against a PostgreSQL 15 and against Tidegate, both with READ COMMITTED as the default, and compares what the
sessions see: rows, errors, and which steps wait.
"""


def page(same: Mapping[str, bool], reasons: Mapping[str, str]) -> str:
    """The page for the specs, by name whether they give PostgreSQL's output, and why they do not."""
    equal = [name for name, is_equal in same.items() if is_equal]
    lines = [_HEAD, f"{len(equal)} of {len(same)} give PostgreSQL's output:", ""]
    lines += textwrap.wrap(", ".join(f"`{name}`" for name in equal) + ".", width=118, break_on_hyphens=False)
    lines += ["", "The others, and why they differ:", "", "| spec | why |", "| --- | --- |"]
    differing = [name for name, is_equal in same.items() if not is_equal]
    lines += [f"| `{name}` | {reasons.get(name, 'not yet explained')} |" for name in differing]
    return "\n".join(lines) + "\n"
