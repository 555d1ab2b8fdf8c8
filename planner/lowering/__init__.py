"""Lowering: the typed IR to one engine's SQL text."""

from planner.functions.forms.form import SessionSettings
from planner.lowering.context import ScanSource, constants_layout
from planner.lowering.lower import LoweredQuery, lower

__all__ = ["LoweredQuery", "ScanSource", "SessionSettings", "constants_layout", "lower"]
