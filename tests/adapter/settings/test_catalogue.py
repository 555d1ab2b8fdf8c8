"""The settings that sessions know: each is heeded somewhere, or documented as without effect."""

from __future__ import annotations

import re
from pathlib import Path

from adapter.settings.catalogue import SETTINGS

ROOT = Path(__file__).parents[3]

NOT_HEEDING = {
    ROOT / "adapter" / "settings" / "catalogue.py",
    ROOT / "adapter" / "definitions" / "indexes" / "parameters.py",
}
"""Where the names of settings stand without being heeded: their list, and storage parameters that are named alike."""


def without_effect() -> set[str]:
    """The settings that docs/compatibility.md lists as changing nothing."""
    text = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    section = text.partition("## Settings\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`(\w+)`", section))


def test_settings_that_nothing_heeds_are_documented() -> None:
    sources = [
        path.read_text(encoding="utf-8")
        for storey in ("frontend", "adapter", "planner", "storage")
        for path in (ROOT / storey).rglob("*.py")
        if path not in NOT_HEEDING
    ]
    unheeded = {
        setting.name
        for setting in SETTINGS
        if setting.context in ("user", "superuser", "backend", "superuser-backend")
        and not any(f'"{setting.name}"' in source for source in sources)
    }
    assert unheeded == without_effect()
