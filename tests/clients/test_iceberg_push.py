"""Published tables and views pushed to an external Iceberg REST catalog, and brought up to date after failures."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, NoSuchViewError, ServerError

from tests.support.iceberg_catalog import WritableCatalog
from tests.support.postgres import free_port
from tests.support.server import run_server

Rows = list[tuple[Any, ...]]


def rows(reader: RestCatalog, table: str) -> Rows | None:
    """What the external catalog shows of a table; None when it has none, or has not heard yet that it was dropped."""
    try:
        found = reader.load_table(table).scan().to_arrow()
    except (NoSuchTableError, NoSuchNamespaceError, ServerError, FileNotFoundError):
        return None
    return sorted(tuple(row.values()) for row in found.to_pylist())


def until(found: Callable[[], object], expected: object, *, within_s: float = 90.0) -> None:
    """Waits until `found` gives what is expected."""
    deadline = time.monotonic() + within_s
    while (last := found()) != expected:
        assert time.monotonic() < deadline, last
        time.sleep(0.2)


def test_tables_are_pushed_and_brought_up_to_date(tmp_path: Path) -> None:
    external = WritableCatalog(tmp_path, free_port())
    external.start()
    try:
        with run_server(tmp_path / "data", arguments=pushing(external)) as server:
            reader = external.client()

            def run(*statements: str) -> None:
                with psycopg.connect(server.dsn(), autocommit=True) as client:
                    for statement in statements:
                        client.execute(statement)

            # What is somebody else's stays so, and is in nobody's way.
            external.tables.create_namespace("public")
            theirs = external.tables.create_table("public.taken", pa.schema([("theirs", pa.int32())]))
            run(
                "CREATE TABLE taken (id int) WITH (iceberg = 'on')",
                "CREATE SCHEMA shop",
                "CREATE TABLE shop.t (id int, word text) WITH (iceberg = 'on')",
                "INSERT INTO shop.t SELECT n, 'row ' || n FROM generate_series(1, 10) n",
                "CALL tidegate.publish('shop.t')",
            )
            until(lambda: rows(reader, "shop.t"), [(n, f"row {n}") for n in range(1, 11)])
            # Changes of rows and of columns are commits: nothing vanishes meanwhile.
            run(
                "DELETE FROM shop.t WHERE id > 3",
                "CALL tidegate.publish('shop.t')",
                "ALTER TABLE shop.t RENAME COLUMN word TO label",
                "ALTER TABLE shop.t ADD COLUMN price numeric(8, 2)",
                "UPDATE shop.t SET price = id",
                "CALL tidegate.publish('shop.t')",
            )
            until(lambda: rows(reader, "shop.t"), [(n, f"row {n}", n) for n in range(1, 4)])
            assert external.commits > 0
            assert [field.field_id for field in reader.load_table("shop.t").schema().fields] == [1, 2, 3]
            snapshot = reader.load_table("shop.t").current_snapshot()
            assert snapshot is not None
            assert snapshot.summary is not None
            assert snapshot.summary["tidegate.csn"] == str(snapshot.snapshot_id)
            # So are changes of the layout: what the manifests say of partitions is in the copy, too.
            run(
                "ALTER TABLE shop.t SET (partition_by = 'label', sort_by = 'id')",
                "INSERT INTO shop.t SELECT n, 'row ' || n % 2, 0 FROM generate_series(10, 50000) n",
                "CALL tidegate.publish('shop.t')",
            )
            until(lambda: len(rows(reader, "shop.t") or ()), 3 + 49991)
            copy = reader.load_table("shop.t")
            assert [field.name for field in copy.spec().fields] == ["label"]
            assert [field.source_id for field in copy.sort_order().fields] == [1]
            assert len(list(copy.scan(row_filter="label = 'row 1'").plan_files())) < len(list(copy.scan().plan_files()))
            run("DELETE FROM shop.t WHERE id >= 10", "CALL tidegate.publish('shop.t')")
            until(lambda: rows(reader, "shop.t"), [(n, f"row {n}", n) for n in range(1, 4)])
            # A copy that the catalog cannot load any more is registered anew.
            written = reader.load_table("shop.t").metadata_location
            assert "/metadata/" in written
            Path(written.removeprefix("file://")).unlink()
            run("UPDATE shop.t SET price = 0 WHERE id = 3", "CALL tidegate.publish('shop.t')")
            until(lambda: (rows(reader, "shop.t") or [()])[-1], (3, "row 3", 0))
            # The catalog is away, and the server dies: what has happened meanwhile is caught up with.
            external.stop()
            run("INSERT INTO shop.t VALUES (4, 'away', 4)", "CALL tidegate.publish('shop.t')")
            run("ALTER TABLE shop.t RENAME TO renamed", "CALL tidegate.publish('shop.renamed')")
            server.kill()
            external.start()
            server.start()
            until(lambda: (rows(reader, "shop.renamed") or [()])[-1], (4, "away", 4))
            until(lambda: rows(reader, "shop.t"), None)
            # What somebody else has written into the copy is overwritten by the next push.
            external.tables.load_table("shop.renamed").delete("id = 1")
            run("DELETE FROM shop.renamed WHERE id = 2", "CALL tidegate.publish('shop.renamed')")
            until(lambda: [row[0] for row in rows(reader, "shop.renamed") or []], [1, 3, 4])
            run("DROP TABLE shop.renamed")
            until(lambda: external.tables.list_tables("shop"), [])
            found = external.tables.load_table("public.taken")
            assert found.metadata.table_uuid == theirs.metadata.table_uuid
            assert "has another table" in server.log.read_text()
    finally:
        external.stop()


def texts(external: WritableCatalog, name: str) -> dict[str, str] | None:
    """The query of a view in the external catalog by dialect; None when it has none."""
    assert external.views is not None
    reader = external.client()
    try:
        metadata = reader.load_view(("public", name)).metadata
    except NoSuchViewError:
        return None
    (current,) = [each for each in metadata.versions if each.version_id == metadata.current_version_id]
    return {each.root.dialect: each.root.sql for each in current.representations}


def pushing(external: WritableCatalog) -> tuple[str, ...]:
    """What a server is started with that pushes there."""
    given = (f"uri={external.uri}", "token=known")
    return ("--spark-start", "lazy", *(part for pair in given for part in ("--iceberg-catalog", pair)))


def test_views_are_pushed_and_brought_up_to_date(tmp_path: Path) -> None:
    external = WritableCatalog(tmp_path, free_port())
    external.start()
    try:
        with run_server(tmp_path / "data", arguments=pushing(external)) as server:

            def run(*statements: str) -> None:
                with psycopg.connect(server.dsn(), autocommit=True) as client:
                    for statement in statements:
                        client.execute(statement)

            def shown(name: str) -> bool:
                return texts(external, name) is not None

            external.tables.create_namespace("public")
            external.tables.create_table("public.taken", pa.schema([("theirs", pa.int32())]))
            run(
                "ALTER SCHEMA public SET (iceberg = 'on')",
                "CREATE TABLE t (id int, word text)",
                "CREATE VIEW v AS SELECT id + 1 AS next FROM t WHERE word = 'it''s'",
                'CREATE VIEW "odd name/ä" AS SELECT next FROM v',
                "CREATE VIEW taken AS SELECT id FROM t",
                "CREATE VIEW unpublishable AS SELECT lower(word) FROM t",
            )
            until(lambda: shown("v") and shown("odd name/ä"), True)
            first = texts(external, "v")
            assert first is not None
            assert set(first) == {"spark", "trino"}
            assert "'it''s'" in first["trino"]
            assert external.views is not None
            assert {name for _, name in external.views} == {"v", "odd name/ä"}
            assert external.tables.table_exists("public.taken")
            # A changed view is a new version of the same one.
            known_as = external.views["public", "v"]["view-uuid"]
            run("CREATE OR REPLACE VIEW v AS SELECT id * 2 AS next, id FROM t")
            until(lambda: "*" in (texts(external, "v") or {}).get("spark", ""), True)
            changed = external.client().load_view(("public", "v")).metadata
            assert changed.view_uuid == known_as
            assert [field.name for field in changed.schemas[-1].fields] == ["next", "id"]
            # The catalog is away, and the server dies: what has happened meanwhile is caught up with.
            external.stop()
            run('ALTER VIEW "odd name/ä" RENAME TO renamed', "CREATE VIEW later AS SELECT word FROM t")
            server.kill()
            external.start()
            server.start()
            until(lambda: shown("renamed") and shown("later") and not shown("odd name/ä"), True)
            # What somebody else has made of ours is overwritten when it is looked at again, and theirs stays.
            external.views["public", "later"]["versions"][-1]["representations"][0]["sql"] = "SELECT 1"
            external.views["public", "v"]["properties"] = {}
            server.kill()
            server.start()
            until(lambda: (texts(external, "later") or {}).get("spark") != "SELECT 1", True)
            run("DROP VIEW renamed, v, later")
            until(lambda: [name for _, name in external.views or ()], ["v"])
            assert "has another table or view" in server.log.read_text()
    finally:
        external.stop()


def test_a_catalog_without_views_gets_the_tables(tmp_path: Path) -> None:
    external = WritableCatalog(tmp_path, free_port(), takes_views=False)
    external.start()
    try:
        with run_server(tmp_path / "data", arguments=pushing(external)) as server:
            with psycopg.connect(server.dsn(), autocommit=True) as client:
                client.execute("ALTER SCHEMA public SET (iceberg = 'on')")
                client.execute("CREATE TABLE t AS SELECT 1 AS id")
                client.execute("CREATE VIEW v AS SELECT id FROM t")
                client.execute("CALL tidegate.publish('t')")
                until(lambda: rows(external.client(), "public.t"), [(1,)])
                until(lambda: server.log.read_text().count("takes no views"), 1)
                client.execute("INSERT INTO t VALUES (2)")
                client.execute("CREATE VIEW w AS SELECT id FROM t")
                until(lambda: rows(external.client(), "public.t"), [(1,), (2,)])
                client.execute("DROP VIEW v, w")
                client.execute("DROP TABLE t")
                until(lambda: rows(external.client(), "public.t"), None)
            assert "could not be pushed" not in server.log.read_text()
            assert server.log.read_text().count("takes no views") == 1
    finally:
        external.stop()


def test_a_catalog_has_an_address(tmp_path: Path) -> None:
    with (
        pytest.raises(Exception, match="the catalog's uri is missing"),
        run_server(tmp_path / "data", arguments=("--iceberg-catalog", "token=known")),
    ):
        pass
