"""Fixtures of the storage tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.store_servers import S3Server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A local S3 server, shared by the whole run: each test has its own bucket."""
    server = S3Server()
    yield server
    server.stop()
