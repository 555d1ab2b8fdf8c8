"""What a system relation holds, before it becomes an Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from msgspec import Struct

from adapter.execution_context import Row
from adapter.system_catalogs.objects.builtin import builtin_columns
from adapter.system_catalogs.objects.objects import CatalogObjects


class Content(Struct, frozen=True, kw_only=True):
    """`columns`: the first rows, column by column, which are the relation's generated data; `rows`: further rows after
    them."""

    columns: Mapping[str, Sequence[Any]] | None = None
    rows: Sequence[Row] = ()


Builder: TypeAlias = Callable[[CatalogObjects], Content]
"""Makes the content of one relation from a catalog snapshot."""


@cache
def template(relation: str, key: str, value: str | int) -> Row:
    """The built-in row of `relation` whose column `key` is `value`; a pattern for rows of the same sort."""
    data = builtin_columns(relation)
    position = data[key].index(value)
    return {name: values[position] for name, values in data.items()}
