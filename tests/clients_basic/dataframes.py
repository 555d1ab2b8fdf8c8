"""pg8000, and what fills dataframes: ADBC, ConnectorX, polars and pandas. `projects/dataframes` prints
what they see."""

from __future__ import annotations

from tests.clients_basic.client import Check, Client
from tests.clients_basic.installing import python_packages
from tests.clients_basic.sessions import of_script


def _client(name: str, version: str, *checks: tuple[str, str]) -> Client:
    return Client(
        name=name,
        version=version,
        install=lambda: python_packages("dataframes"),
        checks=[Check(feature, of_script("dataframes", "session.py", function)) for feature, function in checks],
    )


CLIENTS = (
    _client(
        "pg8000",
        "1.31.6",
        ("rows of many types, parameters, transactions, errors", "pg8000_rows"),
        ("COPY in both directions", "pg8000_copies"),
    ),
    _client(
        "ADBC",
        "1.13.0",
        ("Arrow tables of many types, parameters, a table's schema", "adbc_tables"),
        ("ingestion, new tables and more rows", "adbc_ingests"),
    ),
    _client("ConnectorX", "0.4.6", ("reads by binary, csv and cursor, in partitions", "connectorx_reads")),
    _client("polars", "2.1.0", ("reads and writes by ConnectorX, ADBC and SQLAlchemy", "polars_reads")),
    _client("pandas", "3.1.1 (SQLAlchemy 2.1.9)", ("read_sql, to_sql, in pieces", "pandas_reads")),
)
