"""The engines and their measure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.harness import Engines, Oracle
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="module")
def oracle(postgres: PostgresServer) -> Iterator[Oracle]:
    """The real PostgreSQL with the test tables."""
    measure = Oracle(postgres.dsn())
    yield measure
    measure.connection.close()


@pytest.fixture(scope="module")
def engines(oracle: Oracle) -> Iterator[Engines]:
    """Both engines with the same tables."""
    both = Engines(oracle)
    yield both
    both.close()
