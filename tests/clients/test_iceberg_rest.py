"""The published tables as an Iceberg REST catalog on the HTTP port: read by pyiceberg, and asked by hand."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, OAuthError

from tests.support.postgres import free_port
from tests.support.server import TidegateServer, run_server

Client = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TidegateServer, str]]:
    """A server with passwords, and tables of two schemas, of which the role reader sees one."""
    port = free_port()
    folder = tmp_path_factory.mktemp("rest")
    hba = folder / "pg_hba.conf"
    hba.write_text("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    arguments = ("--spark-start", "lazy", "--http", f"127.0.0.1:{port}", "--hba-file", str(hba), "--workers", "2",
                 "--allow-path", str(folder / "data"))  # fmt: skip
    with run_server(folder / "data", arguments=arguments) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            for statement in (
                "CREATE SCHEMA shop",
                "CREATE TABLE shop.sales (id int PRIMARY KEY, label text, price numeric(8, 2)) WITH (iceberg = 'on')",
                "INSERT INTO shop.sales SELECT n, 'row ' || n, n FROM generate_series(1, 100) n",
                "DELETE FROM shop.sales WHERE id % 10 = 0",
                "ALTER TABLE shop.sales RENAME COLUMN label TO words",
                "UPDATE shop.sales SET words = 'changed' WHERE id < 5",
                "CREATE TABLE hidden (id int) WITH (iceberg = 'on')",
                "CREATE ROLE reader LOGIN PASSWORD 'secret'",
                "CREATE ROLE nobody PASSWORD 'secret'",
                "GRANT SELECT ON shop.sales TO reader",
                "CALL tidegate.publish('shop.sales')",
                "CALL tidegate.publish('hidden')",
            ):
                admin.execute(statement)
        yield server, f"http://127.0.0.1:{port}/iceberg"


@pytest.fixture(scope="module")
def url(server: tuple[TidegateServer, str]) -> str:
    """Where its catalog is."""
    return server[1]


@pytest.fixture
def folder(server: tuple[TidegateServer, str]) -> Path:
    """Where its files are."""
    return server[0].data_dir


@pytest.fixture
def client(server: tuple[TidegateServer, str]) -> Iterator[Client]:
    """A session of its superuser."""
    with psycopg.connect(server[0].dsn(), autocommit=True) as connection:
        yield connection


def ask(
    url: str, path: str, *, method: str = "GET", form: dict[str, str] | None = None, **headers: str
) -> tuple[int, Any]:
    """The status and the JSON of an answer."""
    data = None if form is None else urllib.parse.urlencode(form).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{url}/v1{path}", data=data, method=method, headers=named)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else dict(answer.headers)
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text else None


def _catalog(url: str, **properties: str) -> RestCatalog:
    return RestCatalog("t", uri=url, **{"oauth2-server-uri": f"{url}/v1/oauth/tokens", **properties})


def basic(user: str, password: str) -> str:
    """A header."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def test_pyiceberg_reads_what_select_finds(url: str) -> None:
    catalog = _catalog(url, credential="reader:secret")
    assert catalog.list_namespaces() == [("shop",)]
    assert catalog.list_tables("shop") == [("shop", "sales")]
    assert catalog.table_exists("shop.sales")
    assert not catalog.table_exists("shop.others")
    table = catalog.load_table("shop.sales")
    rows = table.scan(row_filter="id <= 11").to_arrow().sort_by("id").to_pylist()
    assert [row["id"] for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 11]
    assert [row["words"] for row in rows][3:5] == ["changed", "row 5"]
    assert table.scan().to_arrow().num_rows == 90
    with pytest.raises(NoSuchTableError):
        catalog.load_table("shop.others")
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables("public")  # The role sees none of its tables.


def test_a_role_sees_what_it_may_select(url: str) -> None:
    catalog = _catalog(url, warehouse="postgres")  # A rule trusts the superuser.
    assert catalog.list_namespaces() == [("public",), ("shop",)]
    assert catalog.list_tables("public") == [("public", "hidden")]


@pytest.mark.parametrize("credential", ["reader:wrong", "nobody:secret", "missing:secret", "reader:"])
def test_who_does_not_know_the_password_gets_no_token(url: str, credential: str) -> None:
    with pytest.raises(OAuthError):
        _catalog(url, credential=credential)


def test_tokens(url: str) -> None:
    given = {"grant_type": "client_credentials", "client_id": "reader", "client_secret": "secret"}
    status, token = ask(url, "/oauth/tokens", method="POST", form=given)
    assert (status, token["token_type"]) == (200, "bearer")
    bearer = f"Bearer {token['access_token']}"
    assert ask(url, "/postgres/namespaces", Authorization=bearer)[1]["namespaces"] == [["shop"]]
    exchanged = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": token["access_token"],
    }  # fmt: skip
    assert ask(url, "/oauth/tokens", method="POST", form=exchanged)[0] == 200
    assert ask(url, "/oauth/tokens", method="POST", form={**exchanged, "subject_token": "x.y"})[0] == 401
    assert ask(url, "/oauth/tokens", method="POST", form={"grant_type": "password"})[0] == 400
    claims, _, signature = token["access_token"].partition(".")
    for bad in (f"{claims}.{signature[::-1]}", claims, "é", "", f".{signature}"):
        assert ask(url, "/postgres/namespaces", Authorization="Bearer " + bad.encode().decode("latin-1"))[0] == 401


@pytest.mark.parametrize(
    ("kind", "encoding", "body"),
    [
        ("multipart/form-data; boundary=x", "identity", b"zzz"),
        ("multipart/form-data", "identity", b"zzz"),
        ("application/x-www-form-urlencoded", "gzip", b"zzz"),
        ("application/x-www-form-urlencoded; charset=nonsense", "identity", b"a=b"),
        ("application/x-www-form-urlencoded", "identity", b"grant_type=\xff"),
    ],
)
def test_what_is_no_form_is_a_bad_request(url: str, kind: str, encoding: str, body: bytes) -> None:
    headers = {"Content-Type": kind, "Content-Encoding": encoding}
    request = urllib.request.Request(f"{url}/v1/oauth/tokens", data=body, method="POST", headers=headers)
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(request, timeout=30)
    assert raised.value.code == 400


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nowhere/namespaces", 404, "NotFoundException"),
        ("GET", "/config?warehouse=nowhere", 404, "NotFoundException"),
        ("GET", "/postgres/namespaces/none", 404, "NoSuchNamespaceException"),
        ("GET", "/postgres/namespaces/shop/tables/none", 404, "NoSuchTableException"),
        ("GET", "/postgres/namespaces/public/tables/hidden", 404, "NoSuchTableException"),
        ("GET", "/postgres/namespaces?parent=none", 404, "NoSuchNamespaceException"),
        ("POST", "/postgres/namespaces", 406, "UnsupportedOperationException"),
        ("DELETE", "/postgres/namespaces/shop/tables/sales", 406, "UnsupportedOperationException"),
        ("POST", "/postgres/namespaces/shop/tables/sales", 406, "UnsupportedOperationException"),
        ("POST", "/postgres/namespaces/shop/tables/none/metrics", 404, "NoSuchTableException"),
        ("POST", "/postgres/transactions/commit", 406, "UnsupportedOperationException"),
    ],
)
def test_errors_are_the_specifications(url: str, method: str, path: str, status: int, kind: str) -> None:
    found, content = ask(url, path, method=method, Authorization=basic("reader", "secret"))
    assert (found, content["error"]["code"], content["error"]["type"]) == (status, status, kind)


def _foreign(client: Client, name: str, options: str, *, secrets: str = "") -> None:
    client.execute(f"DROP SERVER IF EXISTS {name} CASCADE")
    client.execute(f"CREATE SERVER {name} FOREIGN DATA WRAPPER lake OPTIONS ({options})")
    if secrets:
        client.execute(f"CREATE USER MAPPING FOR postgres SERVER {name} OPTIONS ({secrets})")


@pytest.mark.parametrize("kind", ["rest", "postgresql"])
def test_tables_of_catalogs_are_foreign_tables(url: str, folder: Path, client: Client, kind: str) -> None:
    """Of this server's own catalogs: as the role reader, which sees one table."""
    if kind == "rest":
        options = f"path '{folder}', catalog 'rest', uri '{url}', warehouse 'postgres'"
        secrets = "credential 'reader:secret'"
    else:
        uri = f"postgresql://{client.info.host}:{client.info.port}/postgres?search_path=tidegate"
        options = f"path '{folder}', catalog 'postgresql', uri '{uri}', catalog_name 'postgres'"
        secrets = "user 'reader', password 'secret'"
    _foreign(client, "others", options, secrets=secrets)
    client.execute("DROP SCHEMA IF EXISTS theirs CASCADE; CREATE SCHEMA theirs")
    client.execute("IMPORT FOREIGN SCHEMA shop FROM SERVER others INTO theirs")
    assert client.execute("SELECT count(*), sum(price) FROM theirs.sales").fetchall() == [(90, 4500)]
    client.execute("INSERT INTO shop.sales VALUES (1000, 'later', 1)")
    client.execute("CALL tidegate.publish('shop.sales')")
    assert client.execute("SELECT words FROM theirs.sales WHERE id = 1000").fetchall() == [("later",)]
    client.execute("DELETE FROM shop.sales WHERE id = 1000")
    client.execute("CALL tidegate.publish('shop.sales')")
    shown = client.execute("SELECT umoptions::text FROM pg_user_mappings WHERE srvname = 'others'").fetchall()
    assert len(shown) == 1
    for table in ("public.hidden", "shop.none"):
        with pytest.raises(psycopg.errors.UndefinedFile, match="has no table"):
            client.execute(f"CREATE FOREIGN TABLE theirs.none () SERVER others OPTIONS (table '{table}')")
    with pytest.raises(psycopg.Error, match='has no namespace "nowhere"'):
        client.execute("IMPORT FOREIGN SCHEMA nowhere FROM SERVER others INTO theirs")


@pytest.mark.parametrize(
    ("options", "secrets", "sqlstate"),
    [
        ("catalog 'rest', uri 'URL'", "credential 'reader:wrong'", "42501"),
        ("catalog 'rest', uri 'URL'", "token 'wrong'", "42501"),
        ("catalog 'rest', uri 'URL', warehouse 'none'", "credential 'reader:secret'", "58P01"),
        ("catalog 'rest', uri 'http://127.0.0.1:9/x'", "", "08001"),
        ("catalog 'rest', uri 'URL/nothing'", "", "08001"),
        ("catalog 'postgresql', uri 'postgresql://127.0.0.1:9/x'", "", "08001"),
        ("catalog 'rest', uri 'ftp://x'", "", "22023"),
        ("catalog 'hive', uri 'thrift://x'", "", "22023"),
        ("uri 'URL'", "", "22023"),
        ("endpoint 'http://127.0.0.1:9'", "", "22023"),
    ],
)
def test_what_is_wrong_with_catalogs_is_said(
    url: str, folder: Path, client: Client, options: str, secrets: str, sqlstate: str
) -> None:
    def ask_for_a_table() -> None:
        _foreign(client, "wrong", f"path '{folder}', {options.replace('URL', url)}", secrets=secrets)
        client.execute("CREATE FOREIGN TABLE none () SERVER wrong OPTIONS (table 'shop.sales')")

    with pytest.raises(psycopg.Error) as raised:
        ask_for_a_table()
    assert raised.value.sqlstate == sqlstate, raised.value
    assert "secret" not in str(raised.value)


def test_pages_heads_and_tags(url: str) -> None:
    status, first = ask(url, "/postgres/namespaces?pageToken=&pageSize=1")
    assert (status, first) == (200, {"namespaces": [["public"]], "next-page-token": "public"})
    assert ask(url, "/postgres/namespaces?pageToken=public&pageSize=1")[1] == {
        "namespaces": [["shop"]],
        "next-page-token": None,
    }
    assert ask(url, "/postgres/namespaces/shop", method="HEAD")[0] == 204
    assert ask(url, "/postgres/namespaces/none", method="HEAD")[0] == 404
    assert ask(url, "/postgres/namespaces/shop/tables/sales", method="HEAD")[0] == 204
    assert ask(url, "/postgres/namespaces/shop/views")[1]["identifiers"] == []
    assert ask(url, "/postgres/namespaces/shop/tables/sales/metrics", method="POST", form={})[0] == 204
    request = urllib.request.Request(f"{url}/v1/postgres/namespaces/shop/tables/sales")
    with urllib.request.urlopen(request, timeout=30) as answer:
        tag = answer.headers["ETag"]
    assert ask(url, "/postgres/namespaces/shop/tables/sales", If_None_Match=tag)[0] == 304
