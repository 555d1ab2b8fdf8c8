"""TODO docstring."""

from __future__ import annotations

PUBLISH_DELAYS_S = (0.01, 0.05, 0.2, 0.5, 1.0, 2.0)
"""Pauses between attempts to show committed definitions while the store fails; then the next read finds them."""
