"""Tests that take minutes and a quiet machine: `make histories` runs them, with the rest of their files."""

from __future__ import annotations

import os

import pytest

LONG = pytest.mark.skipif(not os.environ.get("LONG_TESTS"), reason="make histories runs it")
