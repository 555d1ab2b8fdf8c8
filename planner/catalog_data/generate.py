"""Generates this package's data files from a running PostgreSQL 15.

Run by hand when the announced PostgreSQL version changes, against a freshly initialised cluster (UTF8, locale C.UTF-8):

    python -m planner.catalog_data.generate "host=/tmp port=5432 user=postgres dbname=postgres"

Each file holds one relation, column by column, as gzip-compressed JSON: ``{"column": [value, ...], ...}``. OIDs, reg*
values and transaction ids are integers, vectors and arrays are lists, ACL items and node trees are text (a node tree as
the SQL text that pg_get_expr gives for it), everything else as JSON has it. `relations.json.gz` lists every relation of
pg_catalog and information_schema with its columns; see `planner.catalog_data.content`. `pretty.json.gz` has views and
checks as they are shown with few parentheses.

Left out, because Tidegate has none: TOAST tables, the language plpgsql and its functions, collations other than the
bytewise ones. information_schema gets the oid that `storage.catalog.model` gives it.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import psycopg

from storage.catalog.model import INFORMATION_SCHEMA_OID

CATALOGS = [
    "pg_type",
    "pg_cast",
    "pg_operator",
    "pg_proc",
    "pg_aggregate",
    "pg_am",
    "pg_amop",
    "pg_amproc",
    "pg_opclass",
    "pg_opfamily",
    "pg_collation",
    "pg_conversion",
    "pg_language",
    "pg_namespace",
    "pg_range",
    "pg_tablespace",
    "pg_ts_config",
    "pg_ts_config_map",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_class",
    "pg_attribute",
    "pg_index",
    "pg_constraint",
    "pg_description",
    "pg_shdescription",
    "pg_rewrite",
    "pg_authid",
    "pg_auth_members",
    "pg_init_privs",
    "pg_settings",
    "pg_timezone_names",
    "pg_timezone_abbrevs",
]

INFORMATION_SCHEMA = ["sql_features", "sql_implementation_info", "sql_parts", "sql_sizing"]

OWN_SCHEMAS = "(select oid from pg_namespace where nspname in ('pg_catalog', 'information_schema'))"
OWN_RELATIONS = f"(select oid from pg_class where relnamespace in {OWN_SCHEMAS})"
BYTEWISE_COLLATIONS = "('default', 'C', 'POSIX', 'ucs_basic')"
LANGUAGES = "(select oid from pg_language where lanname <> 'plpgsql')"

FILTERS = {
    "pg_type": f"typnamespace in {OWN_SCHEMAS}",
    "pg_proc": f"pronamespace in {OWN_SCHEMAS} and prolang in {LANGUAGES} and proname not like 'plpgsql%'",
    "pg_class": f"relnamespace in {OWN_SCHEMAS}",
    "pg_attribute": f"attrelid in {OWN_RELATIONS}",
    "pg_index": f"indrelid in {OWN_RELATIONS}",
    "pg_constraint": f"connamespace in {OWN_SCHEMAS}",
    "pg_rewrite": f"ev_class in {OWN_RELATIONS}",
    "pg_language": "lanname <> 'plpgsql'",
    "pg_namespace": "nspname in ('pg_catalog', 'information_schema', 'public')",
    "pg_collation": f"collname in {BYTEWISE_COLLATIONS}",
    "pg_description": "classoid <> 'pg_extension'::regclass and classoid <> 'pg_collation'::regclass"
    f" and (classoid <> 'pg_language'::regclass or objoid in {LANGUAGES})"
    " and (classoid <> 'pg_proc'::regclass or objoid not in (select oid from pg_proc where proname like 'plpgsql%'))"
    f" or (classoid = 'pg_collation'::regclass and objoid in"
    f" (select oid from pg_collation where collname in {BYTEWISE_COLLATIONS}))",
    "pg_init_privs": f"classoid = 'pg_class'::regclass and objoid in {OWN_RELATIONS} or classoid = 'pg_proc'::regclass"
    " or classoid = 'pg_namespace'::regclass and objoid in"
    " (select oid from pg_namespace where nspname in ('pg_catalog', 'information_schema', 'public'))",
    "pg_authid": "oid < 16384",
    "pg_timezone_names": "name not like 'posix%'",
}

ORDER = {"pg_proc": "oid", "pg_opclass": "ctid"}
"""Where it is not by the first columns; psql lists the types of operator families in that of the classes."""

NAMESPACE_COLUMNS = {"relnamespace", "typnamespace", "pronamespace", "connamespace"}
INTEGER_TYPES = {"oid", "xid", "regproc", "regtype", "regclass", "int8", "int4", "int2"}
LIST_TYPES = {"int2vector": "int2[]", "oidvector": "oid[]"}


def _expression(table: str, column: str, type_name: str) -> str:
    """The SELECT item that gives `column` in the form that the data files use."""
    name = f'"{column}"'
    if table == "pg_settings" and column in ("setting", "reset_val"):
        return f"case when context = 'internal' or source = 'default' then {name} else coalesce(boot_val, '') end"
    if table == "pg_settings" and column == "source":
        return "'default'"
    if table == "pg_settings" and column in ("sourcefile", "sourceline"):
        return "null"
    if table == "pg_class" and column == "reltoastrelid":
        return "0"
    if table == "pg_rewrite" and column == "ev_action":
        return "pg_get_viewdef(ev_class)"
    if table == "pg_rewrite" and column == "ev_qual":
        return "'<>'"
    if table == "pg_proc" and column == "prosqlbody":
        return "pg_get_function_sqlbody(oid)"
    if table == "pg_attribute" and column == "attmissingval":
        return "null"
    if table in ("pg_timezone_names", "pg_timezone_abbrevs") and type_name == "interval":
        return f"{name}::text"
    if table == "pg_init_privs" and column == "objoid":
        return (
            "case when classoid = 'pg_namespace'::regclass and objoid = 'information_schema'::regnamespace"
            f" then {INFORMATION_SCHEMA_OID} else objoid::int8 end"
        )
    if column in NAMESPACE_COLUMNS or (table == "pg_namespace" and column == "oid"):
        return (
            f"case when {name} = 'information_schema'::regnamespace then {INFORMATION_SCHEMA_OID} else {name}::int8 end"
        )
    if type_name == "pg_node_tree":
        return f"pg_get_expr({name}, 0)"
    if type_name in ("oid", "regproc", "regtype", "regclass"):
        return f"{name}::oid::int8"
    if type_name == "xid":
        return f"{name}::text::int8"
    if type_name in LIST_TYPES:
        return f"array(select x::int8 from unnest({name}::{LIST_TYPES[type_name]}) with ordinality u(x, n) order by n)"
    if type_name == "_oid":
        return f"{name}::int8[]"
    if type_name.startswith("_") and type_name not in ("_int2", "_int4", "_int8", "_float4", "_bool"):
        return f"{name}::text[]"
    if type_name in INTEGER_TYPES or type_name in ("bool", "float4", "float8") or type_name.startswith("_"):
        return name
    return f"{name}::text"


def _write(folder: Path, name: str, content: object) -> None:
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    (folder / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _columns_of(connection: Any, schema: str, table: str) -> list[tuple[str, str]]:
    return [
        (row[0], row[1])
        for row in connection.execute(
            "select a.attname, coalesce(b.typname, t.typname) from pg_attribute a join pg_type t on t.oid = a.atttypid"
            " left join pg_type b on b.oid = t.typbasetype"
            " where a.attrelid = (%s || '.' || %s)::regclass and a.attnum > 0 order by a.attnum",
            (schema, table),
        )
    ]


def _dump(connection: Any, folder: Path, schema: str, table: str, order: str) -> None:
    columns = _columns_of(connection, schema, table)
    items = ", ".join(_expression(table, name, type_name) for name, type_name in columns)
    where = FILTERS.get(table, "true")
    rows = connection.execute(f"select {items} from {schema}.{table} where {where} order by {order}").fetchall()
    _write(folder, table, {name: [row[i] for row in rows] for i, (name, _) in enumerate(columns)})


def _dump_pretty(connection: Any, folder: Path) -> None:
    """The queries of views, and the checks of domains, without superfluous parentheses."""
    rows = connection.execute(
        "select oid::int8, pg_get_viewdef(oid, true) from pg_class"
        f" where relkind = 'v' and relnamespace in {OWN_SCHEMAS}"
        " union all select oid::int8, pg_get_constraintdef(oid, true) from pg_constraint"
        f" where contype = 'c' and connamespace in {OWN_SCHEMAS} order by 1"
    ).fetchall()
    _write(folder, "pretty", {name: [row[i] for row in rows] for i, name in enumerate(("oid", "text"))})


def _dump_relations(connection: Any, folder: Path) -> None:
    """Every relation that a query can name: oid, schema, name, kind, and columns with declared and base types."""
    relations = connection.execute(
        f"select c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text, c.reltype::int8"
        f" from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        f" where c.relnamespace in {OWN_SCHEMAS} and c.relkind in ('r', 'v') order by 2, 3"
    ).fetchall()
    listing = []
    for oid, schema, name, kind, row_type in relations:
        columns = connection.execute(
            "select a.attname::text, a.atttypid::int8, a.atttypmod,"
            " case when t.typtype = 'd' then t.typbasetype else t.oid end::int8,"
            " case when t.typtype = 'd' then t.typtypmod else a.atttypmod end, a.attnotnull"
            " from pg_attribute a join pg_type t on t.oid = a.atttypid"
            " where a.attrelid = %s and a.attnum > 0 order by a.attnum",
            (oid,),
        ).fetchall()
        listing.append([oid, schema, name, kind, row_type, [list(column) for column in columns]])
    _write(folder, "relations", listing)


_ALIASES = (
    "abc alt koi8 mskanji shiftjis sjis tcvn tcvn5712 unicode vscii win win932 win936 win949 win950 windows932"
    " windows936 windows949 windows950 windows866 windows874 iso88591 iso88592 iso88593 iso88594 iso88599 iso885910"
    " iso885913 iso885914 iso885915 iso885916 windows1250 windows1251 windows1252 windows1253 windows1254 windows1255"
    " windows1256 windows1257 windows1258"
)
_OF_SEVERAL_BYTES = {
    "EUC_JP": "\x8f", "EUC_KR": "", "EUC_JIS_2004": "\x8f", "EUC_TW": "\x8e", "SJIS": "", "BIG5": "", "GBK": "",
    "UHC": "", "JOHAB": "", "SHIFT_JIS_2004": "",
}  # fmt: skip
"""Encodings whose characters Python knows otherwise or not, with the byte that begins those of more than two."""
_HELPERS = """
create function pg_temp.said(data bytea, name text) returns text language plpgsql as
$$ begin return convert_from(data, name); exception when others then return null; end $$;
create function pg_temp.written(one text, name text) returns bytea language plpgsql as
$$ begin return convert_to(one, name); exception when others then return null; end $$;
"""


def _sequences(longer: str) -> list[bytes]:
    """All that may be a character of an encoding of several bytes."""
    high = range(0xA1, 0xFF)
    found = [bytes((lead,)) for lead in range(0x80, 0x100)]
    found += [bytes((lead, trail)) for lead in range(0x81, 0xFF) for trail in range(0x40, 0xFF)]
    if longer == "\x8f":
        found += [bytes((0x8F, lead, trail)) for lead in high for trail in high]
    if longer == "\x8e":
        found += [bytes((0x8E, a, b, c)) for a in range(0xA1, 0xB1) for b in high for c in high]
    return found


def _conversions(connection: psycopg.Connection, folder: Path) -> None:
    """Names of encodings, and the characters of those that `_OF_SEVERAL_BYTES` has: runs of characters in the order of
    their bytes, and what is so in one direction only."""
    connection.execute(_HELPERS)
    names = connection.execute(
        "select alias, pg_encoding_to_char(pg_char_to_encoding(alias)) from unnest(%s::text[]) alias"
        " where pg_char_to_encoding(alias) >= 0",
        (_ALIASES.split(),),
    ).fetchall()
    tables = {}
    for encoding, longer in _OF_SEVERAL_BYTES.items():
        said: dict[bytes, str] = dict(
            connection.execute(
                "select data, text from (select data, pg_temp.said(data, %s) as text from unnest(%s::bytea[]) data) q"
                " where text is not null and octet_length(data) >= 1 and length(text) >= 1",
                (encoding, _sequences(longer)),
            ).fetchall()
        )
        # Two characters in a row are none of two bytes.
        single = {data for data in said if len(data) == 1}
        said = {data: text for data, text in said.items() if len(data) == 1 or data[:1] not in single}
        characters = [*map(chr, [*range(0x80, 0xD800), *range(0xE000, 0x10000), *range(0x20000, 0x30000)])]
        characters += [text for text in said.values() if len(text) > 1]
        written: dict[str, bytes] = dict(
            connection.execute(
                "select text, data from (select text, pg_temp.written(text, %s) as data from unnest(%s::text[]) text) q"
                " where data is not null",
                (encoding, characters),
            ).fetchall()
        )
        runs: dict[str, list[str]] = {}
        last, start = -2, ""
        for data in sorted(said):
            code = int.from_bytes(data)
            if code != last + 1 or len(said[data]) != 1:
                start = data.hex()
            runs.setdefault(start, []).append(said[data])
            last = code if len(said[data]) == 1 else -2
        tables[encoding] = {
            "runs": {start: "".join(run) for start, run in runs.items() if len(run[0]) == 1},
            "pairs": {start: run[0] for start, run in runs.items() if len(run[0]) > 1},
            "read_only": [data.hex() for data, text in said.items() if written.get(text) != data],
            "written_only": {text: data.hex() for text, data in written.items() if said.get(data) != text},
        }
    _write(folder, "conversions", {"aliases": dict(names), "tables": tables})


def main(conninfo: str) -> None:
    """Writes all data files next to this script."""
    folder = Path(__file__).parent
    with psycopg.connect(conninfo) as connection:
        connection.execute("set search_path = pg_catalog")
        connection.execute("set timezone = 'UTC'")
        for table in CATALOGS:
            _dump(connection, folder, "pg_catalog", table, ORDER.get(table, "1, 2"))
        for table in INFORMATION_SCHEMA:
            _dump(connection, folder, "information_schema", table, "1, 2")
        _dump_relations(connection, folder)
        _dump_pretty(connection, folder)
        tokens = connection.execute("select * from ts_token_type('default') order by tokid").fetchall()
        names = ["tokid", "alias", "description"]
        _write(folder, "ts_token_types", {name: [row[i] for row in tokens] for i, name in enumerate(names)})
        flags = connection.execute(
            "select name, pg_settings_get_flags(name) from pg_settings where pg_settings_get_flags(name) <> '{}' "
            "order by 1"
        ).fetchall()
        _write(folder, "setting_flags", {"name": [row[0] for row in flags], "flags": [row[1] for row in flags]})
        keywords = connection.execute("select * from pg_get_keywords() order by word").fetchall()
        names = ["word", "catcode", "barelabel", "catdesc", "baredesc"]
        _write(folder, "keywords", {name: [row[i] for row in keywords] for i, name in enumerate(names)})
        encodings = connection.execute(
            "select n, pg_encoding_to_char(n) from generate_series(0, 100) n where pg_encoding_to_char(n) <> ''"
        ).fetchall()
        _conversions(connection, folder)
        _write(folder, "encodings", {"encoding": [row[0] for row in encodings], "name": [row[1] for row in encodings]})


if __name__ == "__main__":
    main(sys.argv[1])
