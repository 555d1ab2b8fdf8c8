"""Folders of files, and sessions that may read them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.adapter.harness import Client, connect, open_server


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """The folder that the server's operator allows."""
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


@pytest.fixture
async def reader(lake: Path) -> AsyncIterator[Client]:
    """A superuser's session of a server that may use files below `lake`."""
    async with open_server(allow_paths=(lake,)) as server:
        yield await connect(server)
