"""Verifiers, as PostgreSQL makes and takes them."""

from __future__ import annotations

import psycopg
import pytest

from adapter.access.passwords import (
    is_password,
    md5_of,
    scram_of,
    scram_verifier,
    verifier_to_store,
    without_passwords,
)
from tests.support.postgres import PostgresServer

SALT = bytes(range(16))

PASSWORDS = [
    "plain",
    "with space",
    "'quote",
    "sécret",
    "ﬁne",
    "no\u00a0break",
    "a\u00adb",
    "a\u00ad",
    "\u0627\u0644",
    "\u0627a",
    "\u2160x",
    "\U0001f600",
    "\u0340x",
    "x\u200by",
    "md5" + "0" * 31,
    "SCRAM-SHA-256$4096:AAAA$BBBB:CCCC",
]


@pytest.mark.parametrize("password", PASSWORDS)
def test_verifiers_are_postgresqls(postgres: PostgresServer, password: str) -> None:
    """PostgreSQL's verifier of a password, made again with its salt."""
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        try:
            connection.execute(psycopg.sql.SQL("CREATE ROLE verified PASSWORD {}").format(password))
            row = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'verified'").fetchone()
            connection.execute("SET password_encryption = md5")
            connection.execute(psycopg.sql.SQL("ALTER ROLE verified PASSWORD {}").format(password))
            digest = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'verified'").fetchone()
        finally:
            connection.execute("DROP ROLE verified")
    assert row is not None
    assert digest is not None
    theirs = scram_verifier(row[0])
    assert theirs is not None
    assert scram_of(password, theirs.salt, theirs.iterations).text() == row[0]
    assert is_password(row[0], password, role="verified")
    assert not is_password(row[0], password + "x", role="verified")
    assert verifier_to_store(password, role="verified", encryption="md5", salt=SALT) == digest[0]
    assert is_password(digest[0], password, role="verified")


def test_what_has_the_form_of_a_verifier_is_one() -> None:
    scram, md5 = scram_of("x", SALT).text(), md5_of("x", "r")
    for stored in (scram, md5):
        for encryption in ("md5", "scram-sha-256"):
            assert verifier_to_store(stored, role="r", encryption=encryption, salt=SALT) == stored


def test_the_empty_password_is_none() -> None:
    for empty in ("", scram_of("", SALT).text(), md5_of("", "r")):
        assert verifier_to_store(empty, role="r", encryption="scram-sha-256", salt=SALT) is None


@pytest.mark.parametrize(
    "statement",
    [
        "alter role r password 's3cret'",
        "ALTER ROLE r\n PASSWORD\t's3cret' LOGIN",
        "create user r password e's3c''r\\'et s3cret' login",
        "create user r password U&'s3cret' login",
        "create user r encrypted password $$s3cret$$ login",
        "create user r password $x$s3cret $$ s3cret$x$ login",
        "create user r password /* s */ 's3cret'",
        "create user r password -- s\n 's3cret'",
        "create user r password 's3cret",
        "alter role a password 's3cret'; alter role b password 's3cret'",
        "create user mapping for r server s options (user 'r', password 's3cret')",
        "create user mapping for r server s options (access_key_id 'x', secret_access_key 's3cret')",
        "alter user /* s */ mapping for r server s options (set no_such_option $x$s3cret$x$",
        "create server s foreign data wrapper lake options (path 's3://x', \"secret_access_key\" 's3cret')",
    ],
)
def test_statements_are_shown_without_passwords(statement: str) -> None:
    shown = without_passwords(statement)
    assert "s3cret" not in shown
    assert "'********'" in shown


def test_other_statements_are_shown_as_they_are() -> None:
    for statement in (
        "select 'x'",
        "alter role r password null",
        "select password from t where a = 'x'",
        "select 'x' as token, token from pg_user_mapping where token = 'y'",
    ):
        assert without_passwords(statement) == statement
