"""What the log says of work that fails again and again."""

from __future__ import annotations

from structlog.testing import capture_logs

from storage.errors import Determinate
from storage.upkeep.troubles import Troubles


def test_a_failure_is_told_when_it_begins_changes_and_ends() -> None:
    troubles = Troubles()
    with capture_logs() as told:
        troubles.succeeded("compaction")
        for error in ("disk full", "disk full", "disk full", "read-only"):
            troubles.failed("compaction", Determinate(error))
        troubles.failed("keep-alive", Determinate("disk full"))
        troubles.succeeded("compaction")
        troubles.succeeded("compaction")
        troubles.failed("compaction", Determinate("read-only"))
    assert [(entry["log_level"], entry["work"], entry.get("error")) for entry in told] == [
        ("warning", "compaction", "disk full"),
        ("warning", "compaction", "read-only"),
        ("warning", "keep-alive", "disk full"),
        ("info", "compaction", None),
        ("warning", "compaction", "read-only"),
    ]
