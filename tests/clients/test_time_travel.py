"""Time travel over the wire, on both engines."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.support.server import TidegateServer, run_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server."""
    with run_server(tmp_path_factory.mktemp("travel") / "data") as running:
        yield running


def csn(client: psycopg.Connection[tuple[object, ...]]) -> int:
    """The CSN up to which everything has been committed."""
    row = client.execute("SELECT tidegate.current_csn()").fetchone()
    assert row is not None
    assert isinstance(row[0], int)
    return row[0]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_the_past_is_the_same_on_both_engines(server: TidegateServer, engine: str) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as client:
        client.execute("DROP TABLE IF EXISTS t")
        client.execute("CREATE TABLE t (id int PRIMARY KEY, name text, price numeric(10, 2), at timestamptz)")
        client.execute(
            "INSERT INTO t SELECT g, 'row ' || g, g * 1.25, '2026-01-01'::timestamptz + g * interval '1 hour'"
            " FROM generate_series(1, 40000) g"
        )
        then = csn(client)
        client.execute("DELETE FROM t WHERE id > 10")
        client.execute("ALTER TABLE t DROP COLUMN price")
        client.execute("UPDATE t SET name = 'other' WHERE id = 3")
        gone = csn(client)
        client.execute("TRUNCATE t")
        client.execute("INSERT INTO t VALUES (1, 'new', NULL)")
        now = csn(client)
        client.execute(f"SET engine = '{engine}'")
        whole = "count(*), sum(id), min(name), max(at)::text"
        for source in (f"tidegate.as_of('t', {then})", f"(SELECT * FROM t AS OF {then}) q"):
            if source.startswith("("):
                found = client.execute(f"SELECT {whole}, sum(price) FROM t AS OF {then}").fetchone()
            else:
                found = client.execute(f"SELECT {whole}, sum(price) FROM {source}").fetchone()
            assert found is not None
            assert found[0] == 40000
            assert found[1] == 800020000
            assert str(found[4]) == "1000025000.00"
        assert client.execute("SELECT name FROM tidegate.as_of('t', %s) WHERE id = 3", (gone,)).fetchone() == ("other",)
        changes = client.execute(
            "SELECT tidegate_diff, count(*), count(DISTINCT tidegate_csn) FROM tidegate.changes('t', %s, %s)"
            " GROUP BY 1 ORDER BY 1",
            (then, now),
        ).fetchall()
        # 39,990 deleted, one changed, ten truncated; one changed, one new.
        assert changes == [(-1, 40001, 3), (1, 2, 2)]
        joined = client.execute(
            f"SELECT o.name, t.name FROM tidegate.as_of('t', {gone}) o JOIN t USING (id)"
        ).fetchall()
        assert joined == [("row 1", "new")]
        client.execute(f"SET tidegate.as_of = {then}")
        assert client.execute("SELECT count(price) FROM t").fetchone() == (40000,)
        client.execute("RESET tidegate.as_of")


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_clones_and_dropped_tables_on_both_engines(server: TidegateServer, engine: str) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as client:
        client.execute("DROP TABLE IF EXISTS o, c")
        client.execute("CREATE TABLE o (gone int, id int PRIMARY KEY, name text, price numeric(10, 2))")
        client.execute("ALTER TABLE o DROP COLUMN gone")
        client.execute("INSERT INTO o SELECT g, 'row ' || g, g * 1.25 FROM generate_series(1, 20000) g")
        client.execute("DELETE FROM o WHERE id % 2 = 0")
        client.execute(f"SET engine = '{engine}'")
        whole = "SELECT count(*), sum(id), min(name), sum(price)::text FROM {}"
        before = client.execute(whole.format("o")).fetchone()
        client.execute("CALL tidegate.clone_table('o', 'c')")
        client.execute("DELETE FROM o WHERE id > 100")
        assert client.execute(whole.format("c")).fetchone() == before
        client.execute("UPDATE c SET name = 'changed' WHERE id = 1")
        assert client.execute("SELECT name FROM o WHERE id = 1").fetchone() == ("row 1",)
        client.execute("DROP TABLE o")
        client.execute("VACUUM c")
        assert client.execute("SELECT count(*) FROM c WHERE name LIKE 'row %'").fetchone() == (9999,)
        client.execute("CALL tidegate.undrop_table('o')")
        assert client.execute("SELECT count(*), max(id) FROM o").fetchone() == (50, 99)
        with pytest.raises(psycopg.errors.UniqueViolation):
            client.execute("INSERT INTO o (id) VALUES (1)")


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_table_is_restored_on_both_engines(server: TidegateServer, engine: str) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as client:
        client.execute("DROP TABLE IF EXISTS r")
        client.execute("CREATE TABLE r (id int PRIMARY KEY, name text, price numeric(10, 2))")
        client.execute("INSERT INTO r SELECT g, 'row ' || g, g * 1.25 FROM generate_series(1, 20000) g")
        then = csn(client)
        client.execute("DELETE FROM r WHERE id % 2 = 0")
        client.execute("UPDATE r SET name = 'other' WHERE id % 3 = 0")
        client.execute("INSERT INTO r VALUES (0, 'new', 0)")
        gone = csn(client)
        client.execute(f"SET engine = '{engine}'")
        client.execute("CALL tidegate.restore_table('r', %s)", (then,))
        whole = "SELECT count(*), sum(id), sum(price), count(*) FILTER (WHERE name = 'row ' || id) FROM r"
        restored = client.execute(whole).fetchone()
        assert restored is not None
        assert restored[:2] == (20000, 200010000)
        assert (str(restored[2]), restored[3]) == ("250012500.00", 20000)
        changed = client.execute(
            "SELECT tidegate_diff, count(*) FROM tidegate.changes('r', %s, %s) GROUP BY 1 ORDER BY 1",
            (gone, csn(client)),
        ).fetchall()
        # One row was new, every third of the odd ones was another, and the even ones were gone.
        assert changed == [(-1, 3334), (1, 13333)]
        assert client.execute(f"SELECT count(*) FROM r AS OF {gone}").fetchone() == (10001,)
