"""Work that is tried again and again: its failures are told when they begin, when they change, and when they are over.

A full disk or a store that is away would otherwise fill the log with the same line every second.
"""

from __future__ import annotations

import structlog

log = structlog.get_logger(__name__)


class Troubles:
    """What fails at present, of the background work of one process."""

    def __init__(self) -> None:
        self._errors: dict[str, str] = {}
        """By work, what was told last."""
        self.failures = 0
        """How often something has failed so far."""

    @property
    def count(self) -> int:
        """How much of the work fails at present."""
        return len(self._errors)

    def all(self) -> dict[str, str]:
        """By work that fails at present, its error."""
        return dict(self._errors)

    def failed(self, work: str, error: Exception) -> None:
        """Note that `work` has failed and will be tried again."""
        self.failures += 1
        text = str(error)
        if self._errors.get(work) != text:
            self._errors[work] = text
            log.warning("storage background work failed, and is tried again", work=work, error=text)

    def succeeded(self, work: str) -> None:
        """Note that `work` is done, or is not wanted any more."""
        if self._errors.pop(work, None) is not None:
            log.info("storage background work succeeded again", work=work)
