"""Writes the answers of the real engines into the statements of `common`, `spark`, `hive` and `duckdb`:
``python -m tests.differential.dialects.record``. What is refused here stays refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import duckdb
from pyspark.sql import SparkSession

from tests.differential.dialects.test_dialects import STATEMENTS, cases, plain


def setup() -> list[str]:
    """The statements that make the tables."""
    return [each.strip() for each in (STATEMENTS / "setup.sql").read_text().split(";\n") if each.strip()]


def of_duckdb() -> Callable[[str], list[Any]]:
    """Runs a statement on DuckDB."""
    connection = duckdb.connect()
    connection.execute("SET timezone = 'UTC'")
    for statement in setup():
        connection.execute(statement)
    return lambda statement: [plain(row) for row in connection.execute(statement).fetchall()]


def of_spark() -> Callable[[str], list[Any]]:
    """Runs a statement on Spark."""
    session = SparkSession.builder.master("local[1]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    for statement in setup():
        if statement.startswith("create"):
            session.sql(statement.replace(" text", " string").replace("double precision", "double") + " using parquet")
        else:
            session.sql(statement)
    return lambda statement: [plain(list(row)) for row in session.sql(statement).collect()]


def main() -> None:
    """Rewrite the files."""
    for engine, names in ((of_duckdb, ("common", "duckdb")), (of_spark, ("spark", "hive"))):
        run = engine()
        for name in names:
            file = STATEMENTS / f"{name}.txt"
            lines = [line for line in file.read_text().splitlines() if line.startswith("#")]
            for statement, answer in cases(name):
                failed = isinstance(answer, str) and answer != "refused"
                shown = (
                    answer
                    if answer == "refused"
                    else json.dumps(answer if failed else run(statement), ensure_ascii=False)
                )
                lines.append(f"{statement} => {shown}")
            file.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
