"""The runner itself, against a real PostgreSQL: what passes, what must fail, what is rewritten."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from sqllogictest.__main__ import main
from sqllogictest.records import ParseError, SortMode, parse_file
from sqllogictest.results import format_rows, hash_line, sort_rows
from sqllogictest.runner import FileReport, FileRun, Target
from tests.support.postgres import PostgresServer


@pytest.fixture
def target(postgres: PostgresServer) -> Target:
    return Target(host=postgres.host, port=postgres.port, user="postgres", database="postgres", timeout_s=30)


def run(target: Target, tmp_path: Path, text: str, *, name: str = "case.slt", complete: bool = False) -> FileReport:
    path = tmp_path / name
    path.write_text(text)
    return FileRun(path, target, complete=complete).run()


def test_what_passes(target: Target, tmp_path: Path) -> None:
    report = run(
        target,
        tmp_path,
        """\
# a comment
statement ok
create table t(a int, b text)

statement count 2
insert into t values (1, 'x'), (2, '')

query IT rowsort
select a, b from t
----
1 x
2 (empty)

query I nosort same
select 1
----
1

query I nosort same
select 1
----
1

query T
select null
----
NULL

statement error
select nope

statement error 42703
select nope

statement error column .* does not exist
select nope

query error division by zero
select 1 / 0

statement error
select 1 / 0
----
division by zero


skipif postgresql
statement ok
nonsense

onlyif mysql
query I
nonsense
----
1

connection second
statement ok
begin

connection second
query I
select count(*) from t
----
2

sleep 1ms

halt

statement ok
nonsense
""",
    )
    assert report.ok, report
    assert (report.passed, report.skipped) == (13, 2)


@pytest.mark.parametrize(
    "record",
    [
        "query I\nselect 1\n----\n2\n",
        "query I\nselect 1\n----\n",
        "query II\nselect 1\n----\n1\n",
        "query I\nselect 1\n----\n1\n1\n",
        "query T\nselect 'a  b'\n----\na b\n",
        "query T\nselect null\n----\n(empty)\n",
        "query I\nselect x from (values (1), (2)) v(x) order by x\n----\n2\n1\n",
        "query R\nselect 1.50\n----\n1.5\n",
        "statement ok\nselect nope\n",
        "statement error\nselect 1\n",
        "statement error 22012\nselect nope\n",
        "statement error table\nselect nope\n",
        "statement error [\nselect nope\n",
        "statement count 3\ncreate table u as select 1\n",
        "query I nosort l\nselect 1\n----\n1\n\nquery I nosort l\nselect 2\n----\n2\n",
        "query I\nselect 1\n----\n1 values hashing to 00000000000000000000000000000000\n",
    ],
)
def test_what_fails(target: Target, tmp_path: Path, record: str) -> None:
    report = run(target, tmp_path, record)
    assert len(report.failures) == 1
    assert not report.ok


def test_the_original_format(target: Target, tmp_path: Path) -> None:
    report = run(
        target,
        tmp_path,
        """\
hash-threshold 3

query IRT rowsort
select 2, 1.5, E'a\\tb'
----
2
1.500
a@b

query I valuesort
select x from (values (3), (1), (2), (10)) v(x)
----
4 values hashing to f72b0f1a5a2c08e5d11e93ba3fd7bf9d

query I
select 7.9
----
7
""",
        name="case.test",
    )
    digest = hash_line(sort_rows(format_rows([["3"], ["1"], ["2"], ["10"]], "I", original=True), SortMode.VALUES))
    assert digest.startswith("4 values hashing to ")
    assert [failure.place.rsplit(":", 1)[1] for failure in report.failures] == ["10"]
    assert digest in report.failures[0].reason


def test_completion_writes_what_the_server_says(target: Target, tmp_path: Path) -> None:
    text = "# head\nquery IT\nselect 1, 'x'\n----\nwrong\n\nstatement error 99999\nselect nope\n\n"
    text += "query I\nselect 5\n"
    assert run(target, tmp_path, text, complete=True).ok
    rewritten = (tmp_path / "case.slt").read_text()
    assert rewritten == (
        "# head\nquery IT\nselect 1, 'x'\n----\n1 x\n\nstatement error 42703\nselect nope\n\n"
        "query I\nselect 5\n----\n5\n"
    )
    assert run(target, tmp_path, rewritten).ok


def test_files_do_not_meet(target: Target, tmp_path: Path) -> None:
    text = "statement ok\ncreate table same(a int)\n"
    assert run(target, tmp_path, text, name="one.slt").ok
    assert run(target, tmp_path, text, name="two.slt").ok
    assert run(target, tmp_path, text, name="one.slt").ok


@pytest.mark.parametrize(
    "text", ["system ok\nls\n", "nonsense\n", "statement maybe\nselect 1\n", "query 1\nselect 1\n", "sleep soon\n"]
)
def test_files_that_are_not_in_the_format(target: Target, tmp_path: Path, text: str) -> None:
    report = run(target, tmp_path, text)
    assert report.fatal is not None
    assert "case.slt:1:" in report.fatal


def test_system_records_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.slt"
    path.write_text("statement ok\nselect 1\n\nsystem ok\nrm -rf /\n")
    with pytest.raises(ParseError, match=r"x\.slt:4: system records are not run"):
        parse_file(path)


def test_includes(target: Target, tmp_path: Path) -> None:
    (tmp_path / "part.slt").write_text("query I\nselect 3\n----\n3\n")
    report = run(target, tmp_path, "include part.slt\n\nstatement ok\nselect 1\n")
    assert report.ok
    assert report.passed == 2


def test_the_command_line(postgres: PostgresServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.slt").write_text("statement ok\nselect 1\n")
    (tmp_path / "bad.slt").write_text("query I\nselect 1\n----\n2\n")
    junit = tmp_path / "junit.xml"
    arguments = ["--host", postgres.host, "--port", str(postgres.port), "--junit", str(junit)]
    assert main([*arguments, str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert "good.slt: 1 passed, 0 failed" in output
    assert "-2" in output
    assert "+1" in output
    suites = ElementTree.parse(junit).getroot().findall("testsuite")
    assert sorted(suite.get("failures") or "" for suite in suites) == ["0", "1"]
    assert main([*arguments, str(tmp_path / "good.slt")]) == 0


def test_an_unreachable_server_is_a_failure(tmp_path: Path) -> None:
    target = Target(host="127.0.0.1", port=1, user="postgres", database="postgres", timeout_s=1)
    report = run(target, tmp_path, "statement ok\nselect 1\n")
    assert report.fatal is not None
    assert "cannot connect" in report.fatal
