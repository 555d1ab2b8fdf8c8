"""pg_hba_file_rules of files that are right and wrong: line by line what PostgreSQL 15 makes of them."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

from frontend.authentication.hba import BadLine, TlsUse, rules, shown_address
from frontend.authentication.rules import BadRules, RuleBook, read_file
from frontend.authentication.tokens import lines
from tests.support.postgres import PostgresServer

LINES = r"""
# plain lines
local   all  all                            trust
host    all  all  127.0.0.1/32              scram-sha-256
host    "all" "all"  ::1/128                md5
hostnossl db1,db2 u1,+g1,"+g2" 10.0.0.0/8   reject
host    sameuser,samerole,samegroup all samenet trust
host    replication all samehost            trust
host all all all trust
host all all 10.1.2.3 255.255.0.0 password
host all all 10.1.2.3 255.0.255.0 password # a mask that is no prefix
host all all fe80::1 ffff:ffff:: trust
host all all example.org trust
host all all .example.org trust
hostnogssenc all all 0.0.0.0/0 trust
# quotes and commas
host "a b","c""d" e , f 1.2.3.4/32 trust
host a, b c,d 1.2.3.4/32 trust
host ,a ,b 1.2.3.4/32 trust
host all "" 1.2.3.4/32 trust
host all x"y z"w 1.2.3.4/32 trust
host all all"#"b 1.2.3.4/32 trust#comment
host @names all 1.2.3.4/32 trust
host all "@names" 1.2.3.4/32 trust
host all all \
  1.2.3.4/32 \
  trust
# wrong ones
nope all all trust
local
local all
local all all
host all all
host all all 1.2.3.4
host all all 1.2.3.4/33 trust
host all all 1.2.3.4/x trust
host all all ::1/129 trust
host all all example.org/8 trust
host all all 1.2.3.4 ::1 trust
host all all 1.2.3.4 hello trust
host all all 1.2.3.4,1.2.3.5 trust
host all all 1.2.3.4 255.0.0.0,x trust
host all all 1.2.3.4/32 trust,reject
host,local all all trust
host all all 1.2.3.4/32
host all all 1.2.3.4/32 magic
host all all 1.2.3.4/32 bsd
host all all 1.2.3.4/32 sspi
host all all 1.2.3.4/32 trust option
host all all 1.2.3.4/32 trust nope=1
host all all 1.2.3.4/32 trust clientcert=verify-full
host all all 1.2.3.4/32 trust clientname=CN
hostssl all all 1.2.3.4/32 trust
host all all 256.1.1.1/8 trust
"""

NAMES = "one, two # more\nthree\n"


@pytest.fixture
def folder(postgres: PostgresServer) -> Path:
    with psycopg.connect(postgres.dsn()) as connection:
        return Path(connection.execute("SHOW data_directory").fetchone()[0])  # type: ignore[index]


def test_lines_are_postgresqls(postgres: PostgresServer, folder: Path) -> None:
    hba = folder / "pg_hba.conf"
    before = hba.read_bytes()
    (folder / "names").write_text(NAMES)
    os.chmod(folder / "names", 0o644)
    try:
        hba.write_text(LINES)
        ours = RuleBook(None, tls=TlsUse())
        found = rules(lines(hba, LINES, read_file), tls=TlsUse())
        with psycopg.connect(postgres.dsn()) as connection:
            rows = connection.execute(
                "SELECT line_number, type, database, user_name, address, netmask, auth_method, options, error"
                " FROM pg_hba_file_rules"
            ).fetchall()
    finally:
        hba.write_bytes(before)
        (folder / "names").unlink()
    assert ours.rules(guarded=True)
    shown: list[tuple[object, ...]] = []
    for each in found:
        if isinstance(each, BadLine):
            shown.append((each.line, *(None,) * 7, each.error))
            continue
        words = [[token.text for token in field] for field in (each.databases, each.roles)]
        options = [f"{name}={value}" for name, value in each.options] or None
        shown.append((each.line, each.type, *words, *shown_address(each.address), each.method, options, each.futile))
    for line, (mine, theirs) in enumerate(zip(shown, rows, strict=True)):
        assert mine == theirs, line


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(BadRules, match="could not open"):
        RuleBook(missing, tls=TlsUse())
    wrong = tmp_path / "wrong"
    wrong.write_text("local all all trust\nhost all all 1.2.3.4/32 magic\n")
    with pytest.raises(BadRules, match=r'line 2 .* invalid authentication method "magic"'):
        RuleBook(wrong, tls=TlsUse())
    empty = tmp_path / "empty"
    empty.write_text("# nothing\n")
    with pytest.raises(BadRules, match="no entries"):
        RuleBook(empty, tls=TlsUse())


def test_a_wrong_file_changes_nothing_when_it_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "hba"
    path.write_text("local all all trust\n")
    book = RuleBook(path, tls=TlsUse())
    path.write_text("local all all magic\n")
    with pytest.raises(BadRules):
        book.reload()
    assert [rule.method for rule in book.rules(guarded=False)] == ["trust"]
    path.write_text("local all all reject\n")
    book.reload()
    assert [rule.method for rule in book.rules(guarded=False)] == ["reject"]
    assert RuleBook(path, tls=TlsUse()).hba_rows(guarded=True)[0]["auth_method"] == "reject"


def test_files_that_include_each_other_are_no_loop(tmp_path: Path) -> None:
    path = tmp_path / "hba"
    path.write_text("local @again all trust\n")
    (tmp_path / "again").write_text("a @again\n")
    with pytest.raises(BadRules, match="nesting depth"):
        RuleBook(path, tls=TlsUse())
