"""docs/lake.md and docs/spark.md keep their word: their transcripts are typed into psql."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.clients.test_psql import psql
from tests.clients.test_readme import pattern, tour
from tests.support.server import run_server

ROOT = Path(__file__).resolve().parents[2]


def make_lake(folder: Path) -> None:
    """The files that the document speaks of."""
    for year, rows in ((2023, {"region": ["east"], "amount": [7]}),
                       (2024, {"region": ["east", "west", "east"], "amount": [10, 5, 20]})):  # fmt: skip
        below = folder / "sales" / f"year={year}"
        below.mkdir(parents=True)
        pq.write_table(pa.table(rows), below / "part-0.parquet")
    with gzip.open(folder / "people.csv.gz", "wt") as file:
        file.write("id;name;born\n1;Ada;1815-12-10\n2;Grace;1906-12-09\n")
    write_deltalake(f"{folder}/orders", pa.table({"id": pa.array([1, 2, 3], pa.int32()), "amount": [10, 20, 30]}))
    DeltaTable(f"{folder}/orders").delete("id = 2")
    (folder / "events.jsonl").write_text('{"kind": "click"}\n{"kind": "view", "ms": 7}\n{"kind": "click"}\n')


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_the_commands_of_the_document_work(tmp_path: Path, engine: str) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    make_lake(lake)
    check("lake.md", tmp_path, lake, engine)


def test_the_settings_of_spark_are_as_the_document_says(tmp_path: Path) -> None:
    check("spark.md", tmp_path, tmp_path, "local")


def check(document: str, tmp_path: Path, lake: Path, engine: str) -> None:
    """Type the transcripts of `document` into psql."""
    steps = list(tour((ROOT / "docs" / document).read_text(encoding="utf-8").replace("LAKE/", f"{lake}/")))
    assert steps
    script = f"SET engine = '{engine}';\n" + "".join(
        f"\\echo =={number}==\n\\warn =={number}==\n{step.statement}\n" for number, step in enumerate(steps)
    )
    arguments = ("--spark-master", "local[2]", "--spark-start", "lazy", "--allow-path", str(lake))
    with run_server(tmp_path / "data", arguments=arguments) as server:
        output = psql(server, "\\set VERBOSITY default\n" + script)
    answers = dict(re.findall(r"==(\d+)==\n((?:(?!==\d+==\n).*\n)+)", output))
    for number, step in enumerate(steps):
        answer = answers.get(str(number), "")
        assert re.fullmatch(pattern(step.expected), answer), f"{step.statement}\n{answer}"
