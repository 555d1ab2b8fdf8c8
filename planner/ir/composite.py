"""What a literal of a composite type holds."""

from __future__ import annotations

from msgspec import Struct


class Composite(Struct, frozen=True):
    """A value of a composite type: the values of its fields, in order, each as `nodes.Literal` would hold it."""

    items: tuple[object, ...]
