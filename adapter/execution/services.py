"""TODO docstring."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

RETAIN_EVERY = 256
"""Transaction ids between two looks for finished transactions that may be forgotten."""
