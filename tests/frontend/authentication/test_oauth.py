"""Bearer tokens: which ones let in, and that nothing else does."""

from __future__ import annotations

import hmac
import json
import struct
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from frontend.authentication.hba import Rule
from frontend.authentication.oauth import BadToken, IssuersKeys, bearer_token, verified_name
from planner.errors import SqlError
from tests.frontend import raw_client as raw
from tests.frontend.authentication.scram_client import initial, response
from tests.frontend.authentication.test_tls import Authority, Place, encrypted
from tests.support.server import run_server

RSA = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
EC = ECKey.generate_key("P-256", {"kid": "two", "use": "sig"})
ROTATED = ECKey.generate_key("P-256", {"kid": "three", "use": "sig"})
SECRET = OctKey.generate_key(256, {"kid": "one"})
STRANGER = RSAKey.generate_key(2048, {"kid": "one"})
ISSUER = "https://login.example.org"
RIGHT = {"iss": ISSUER, "aud": ["other", "tidegate"], "scope": "openid sql", "sub": "ada", "exp": 4_000_000_000}


def token(claims: dict[str, Any] | None = None, key: Any = RSA, algorithm: str = "RS256", **changes: Any) -> str:
    """A token of these claims; a change to None leaves one out."""
    said = {**(RIGHT if claims is None else claims), **changes}
    said = {name: value for name, value in said.items() if value is not None}
    header = {"alg": algorithm, "kid": key.kid} if key.kid else {"alg": algorithm}
    return jwt.encode(header, said, key, algorithms=[algorithm])


def signed_with_the_public_key() -> str:
    """A token that is signed with what everybody can read, as if it were a secret."""
    parts = [json.dumps(part).encode() for part in ({"alg": "HS256", "kid": "one"}, RIGHT)]
    signed = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = hmac.digest(RSA.as_pem(private=False), signed, "sha256")
    return (signed + b"." + urlsafe_b64encode(signature).rstrip(b"=")).decode()


def public_keys(*keys: Any) -> str:
    return json.dumps(KeySet(list(keys)).as_dict(private=False))


@pytest.fixture
def rule(tmp_path: Path) -> Rule:
    keys = tmp_path / "keys"
    keys.write_text(public_keys(RSA, EC))
    options = (("issuer", ISSUER), ("scope", "sql"), ("jwks", str(keys)), ("audience", "tidegate"))
    return Rule(line=1, type="hostssl", databases=(), roles=(), address=None, method="oauth", options=options)


def name_in(text: str, rule: Rule, *, now_s: int = 1_800_000_000, keys: IssuersKeys | None = None) -> str:
    return verified_name(text, rule, keys or IssuersKeys(time.monotonic), now_s)


def test_tokens_of_the_issuer_name_their_bearer(rule: Rule) -> None:
    assert name_in(token(), rule) == "ada"
    assert name_in(token(key=EC, algorithm="ES256", aud="tidegate", scope=None, scp=["sql"]), rule) == "ada"
    assert name_in(token(nbf=1_800_000_010, exp=1_799_999_990), rule) == "ada"


UNSIGNED = "eyJhbGciOiJub25lIn0." + "eyJzdWIiOiJhZGEifQ" + "."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "a.b.c",
        UNSIGNED,
        token(key=STRANGER),
        token(key=ROTATED, algorithm="ES256"),
        token(iss="https://login.example.org.evil"),
        token(iss=None),
        token(aud="another"),
        token(aud=None),
        token(exp=1_700_000_000),
        token(exp=None),
        token(exp="soon"),
        token(nbf=1_900_000_000),
        token(scope="openid"),
        token(scope=None),
        token(scope=7),
        token(sub=None),
        token(sub=""),
        token(sub=["ada"]),
        token()[:-4],
        token().rpartition(".")[0] + ".",
        token(key=SECRET, algorithm="HS256"),
        signed_with_the_public_key(),
    ],
)
def test_no_other_token_does(text: str, rule: Rule) -> None:
    with pytest.raises(BadToken):
        name_in(text, rule)


def test_new_keys_are_found(rule: Rule) -> None:
    now = [0.0]
    keys = IssuersKeys(lambda: now[0])
    assert name_in(token(), rule, keys=keys) == "ada"
    Path(rule.option("jwks") or "").write_text(public_keys(EC, ROTATED))
    with pytest.raises(BadToken):
        name_in(token(key=ROTATED, algorithm="ES256"), rule, keys=keys)
    now[0] = 61.0
    assert name_in(token(key=ROTATED, algorithm="ES256"), rule, keys=keys) == "ada"
    with pytest.raises(BadToken):
        name_in(token(), rule, keys=keys)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"x,,\x01auth=Bearer x\x01\x01",
        b"p=tls-server-end-point,,\x01auth=Bearer x\x01\x01",
        b"n,a=postgres,\x01auth=Bearer x\x01\x01",
        b"n,\x01auth=Bearer x\x01\x01",
        b"n,,auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01host=x\x01\x01",
        b"n,,\x01auth\x01\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"n,,\x01\x01",
    ],
)
def test_broken_messages(message: bytes) -> None:
    with pytest.raises(SqlError) as error:
        bearer_token(message)
    assert error.value.fatal


def test_messages() -> None:
    assert bearer_token(b"n,,\x01auth=Bearer a.b.c\x01\x01") == "a.b.c"
    assert bearer_token(b"y,,\x01host=h\x01auth=bearer a.b.c\x01port=1\x01\x01") == "a.b.c"
    assert bearer_token(b"n,,\x01auth=\x01\x01") == ""


# ---------------------------------------------------------------- a server


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("oauth")
    authority = Authority.made(folder)
    certificate, key = authority.sign("server", "/CN=localhost")
    (folder / "keys").write_text(public_keys(RSA))
    options = f'issuer="{ISSUER}" scope="sql" jwks="{folder}/keys" audience=tidegate'
    (folder / "hba").write_text(
        f"host all postgres 127.0.0.1/32 trust\nhost all mapped all oauth {options} map=mail claim=email\n"
        f"host all all all oauth {options}\n"
    )
    (folder / "ident").write_text('mail "/^(.*)@example.org$" mapped\n')
    arguments = (
        *("--spark-start", "lazy", "--hba-file", str(folder / "hba"), "--ident-file", str(folder / "ident")),
        *("--tls-cert", str(certificate), "--tls-key", str(key)),
    )
    with run_server(folder / "data", arguments=arguments) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE ROLE ada LOGIN; CREATE ROLE mapped LOGIN; CREATE ROLE eve LOGIN")
        yield Place(server, authority, folder)


async def bear(place: Place, user: str, text: str) -> list[raw.Reply]:
    """What the server says to a client with this token, up to its last word."""
    client = await encrypted(place)
    client.send(raw.startup({"user": user, "database": "postgres"}))
    reply = await client.receive()
    assert reply is not None
    assert reply.body == struct.pack(">I", 10) + b"OAUTHBEARER\0\0"
    client.send(initial(b"n,,\x01auth=" + (b"Bearer " + text.encode() if text else b"") + b"\x01\x01", "OAUTHBEARER"))
    reply = await client.receive()
    assert reply is not None
    if reply.body[:4] == struct.pack(">I", 11):
        client.send(response(b"\x01"))
        return [reply, *await client.until("E")]
    return [reply] if reply.code == "E" else [reply, *await client.until("Z")]


async def test_who_bears_a_token_comes_in(place: Place) -> None:
    replies = await bear(place, "ada", token())
    assert replies[0].body == struct.pack(">I", 0)
    assert replies[-1].code == "Z"
    replies = await bear(place, "mapped", token(email="someone@example.org"))
    assert replies[-1].code == "Z"


@pytest.mark.parametrize(
    ("user", "text"),
    [
        ("ada", ""),
        ("ada", UNSIGNED),
        ("ada", token(key=STRANGER)),
        ("eve", token()),
        ("nobody", token()),
        ("mapped", token()),
        ("mapped", token(email="mapped@example.com")),
    ],
)
async def test_others_learn_where_to_get_one(place: Place, user: str, text: str) -> None:
    replies = await bear(place, user, text)
    if user == "ada":
        assert json.loads(replies[0].body[4:]) == {
            "status": "invalid_token",
            "openid-configuration": f"{ISSUER}/.well-known/openid-configuration",
            "scope": "sql",
        }
    assert replies[-1].fields["C"] == "28000"
    assert replies[-1].fields["M"] == f'OAuth bearer authentication failed for user "{user}"'


def test_tokens_are_not_asked_for_in_the_clear(place: Place) -> None:
    with pytest.raises(psycopg.OperationalError, match="oauth authentication requires an encrypted connection"):
        psycopg.connect(place.server.dsn().replace("user=postgres", "user=ada") + " sslmode=disable")
