"""Fixtures of the storage tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.cloud_emulators import AzureServer, GoogleServer
from tests.storage.store_servers import S3Server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A local S3 server, shared by the whole run: each test has its own bucket."""
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def azure() -> Iterator[AzureServer]:
    """A local Azurite."""
    server = AzureServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleServer]:
    """A local server of Google's interface."""
    server = GoogleServer(tmp_path_factory.mktemp("google"))
    yield server
    server.stop()
