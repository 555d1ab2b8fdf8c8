"""The README keeps its word: each line of its tour is typed into psql, and each make target that it names is real."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.clients.test_psql import psql
from tests.support.server import run_server

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROMPT = re.compile(r"^postgres=[*!]?# (.*)$")


@dataclass
class Step:
    """One statement of the tour, the COPY data that goes with it, and what psql answers; `…` stands for anything."""

    statement: str
    data: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)


def tour(text: str = README) -> Iterator[Step]:
    """The steps of all transcripts in a document, in order."""
    for block in re.findall(r"```psql\n(.*?)```", text, re.DOTALL):
        step: Step | None = None
        for line in block.splitlines():
            if match := PROMPT.match(line):
                if step is not None:
                    yield step
                step = Step(match[1])
                in_data = "FROM STDIN" in match[1]
                continue
            assert step is not None
            if in_data:
                step.data.append(line)
                in_data = line != "\\."
            else:
                step.expected.append(line)
        assert step is not None
        yield step


def pattern(lines: list[str]) -> str:
    """A regular expression for `lines`: `…` alone is any lines, inside a line any text."""
    parts = [r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in lines]
    return "".join(parts)


def test_the_tour_works_line_by_line(tmp_path: Path) -> None:
    steps = list(tour())
    assert len(steps) > 10
    script = "".join(
        f"\\echo =={number}==\n\\warn =={number}==\n{step.statement}\n" + "".join(f"{line}\n" for line in step.data)
        for number, step in enumerate(steps)
    )
    with run_server(tmp_path / "data", arguments=("--spark-master", "local[2]", "--spark-start", "eager")) as server:
        output = psql(server, "\\set VERBOSITY default\n" + script)
    answers: dict[int, str] = dict.fromkeys(range(len(steps)), "")
    for number, answer in re.findall(r"==(\d+)==\n(.*?)(?===\d+==\n|\Z)", output, re.DOTALL):
        answers[int(number)] += answer
    for number, step in enumerate(steps):
        assert re.fullmatch(pattern(step.expected), answers[number]), f"{step.statement}\n{answers[number]}"


def test_the_commands_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"`?make ([a-z-]+)", README))
    assert named
    assert named <= targets | {"it"}


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", README))))
def test_the_links_of_the_readme_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()
