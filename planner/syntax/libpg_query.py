"""libpg_query by way of `postgast`: of that package only the modules that are used.

Its `__init__` loads its formatter and its typed trees too, which takes longer than half of the planner. So the package
is made known here without running that; its modules are then found and loaded as ever.

`pb` are libpg_query's protobuf messages and enumerations. `pretty` calls what the package does not offer yet, by
libpg_query's own header (postgres_deparse.h of 17-6.2).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec
from typing import Any


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
from postgast.errors import PgQueryError, check_error  # noqa: E402
from postgast.native import PgQueryError as NativeError  # noqa: E402
from postgast.native import PgQueryProtobuf, lib  # noqa: E402
from postgast.normalize import normalize  # noqa: E402
from postgast.parse import parse  # noqa: E402
from postgast.scan import scan  # noqa: E402

__all__ = ["PgQueryError", "deparse", "normalize", "parse", "pb", "pretty", "scan"]

INDENT = 4
LINE_CHARS = 80
"""Where lists of items are broken by `pretty`."""


class _Options(ctypes.Structure):
    """PostgresDeparseOpts."""

    _fields_ = (
        ("comments", ctypes.c_void_p),
        ("comment_count", ctypes.c_size_t),
        ("pretty_print", ctypes.c_bool),
        ("indent_size", ctypes.c_int),
        ("max_line_length", ctypes.c_int),
        ("trailing_newline", ctypes.c_bool),
        ("commas_start_of_line", ctypes.c_bool),
    )


class _Comments(ctypes.Structure):
    """PgQueryDeparseCommentsResult."""

    _fields_ = (
        ("comments", ctypes.c_void_p),
        ("comment_count", ctypes.c_size_t),
        ("error", ctypes.POINTER(NativeError)),
    )


lib.pg_query_deparse_comments_for_query.argtypes = [ctypes.c_char_p]
lib.pg_query_deparse_comments_for_query.restype = _Comments
lib.pg_query_free_deparse_comments_result.argtypes = [_Comments]
lib.pg_query_free_deparse_comments_result.restype = None
lib.pg_query_deparse_protobuf_opts.argtypes = [PgQueryProtobuf, _Options]
lib.pg_query_deparse_protobuf_opts.restype = lib.pg_query_deparse_protobuf.restype


def deparse(tree: pb.ParseResult) -> str:
    """The SQL text of a parse tree. Raises PgQueryError for a tree that no statement has."""
    # The package's own function would load its typed trees, which takes 50 ms.
    return _print(tree, lib.pg_query_deparse_protobuf)


def pretty(text: str, tree: pb.ParseResult) -> str:
    """`text`, whose parse tree is `tree`, in lines with indentation; its comments stay. Raises PgQueryError."""
    comments = lib.pg_query_deparse_comments_for_query(text.encode())
    try:
        check_error(comments)
        options = _Options(comments.comments, comments.comment_count, True, INDENT, LINE_CHARS, False, False)
        return _print(tree, lambda message: lib.pg_query_deparse_protobuf_opts(message, options))
    finally:
        lib.pg_query_free_deparse_comments_result(comments)


def _print(tree: pb.ParseResult, call: Callable[[PgQueryProtobuf], Any]) -> str:
    serialized = tree.SerializeToString()
    data = ctypes.create_string_buffer(serialized, len(serialized))
    printed = call(PgQueryProtobuf(len=len(serialized), data=ctypes.cast(data, ctypes.c_void_p).value))
    try:
        check_error(printed)
        query: bytes = printed.query
        return query.decode()
    finally:
        lib.pg_query_free_deparse_result(printed)
