"""libpg_query by way of `postgast`: of that package only the modules that are used.

Its `__init__` loads its formatter and its typed trees too, which takes longer than half of the planner. So the package
is made known here without running that; its modules are then found and loaded as ever.

`pb` are libpg_query's protobuf messages and enumerations.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec


def _without_init(name: str) -> None:
    """Makes a package known without running its `__init__`."""
    if name in sys.modules:
        return
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    sys.modules[name] = module_from_spec(spec)


_without_init("postgast")

from postgast import pg_query_pb2 as pb  # noqa: E402 - the package has to be known first
from postgast.errors import PgQueryError  # noqa: E402
from postgast.parse import parse  # noqa: E402
from postgast.scan import scan  # noqa: E402

__all__ = ["PgQueryError", "deparse", "parse", "pb", "scan"]


def deparse(tree: pb.ParseResult) -> str:
    """The SQL text of a parse tree. Raises PgQueryError for a tree that no statement has."""
    from postgast.deparse import deparse as print_tree

    text: str = print_tree(tree)
    return text
