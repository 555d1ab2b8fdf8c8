"""Runs SQL on a real PostgreSQL and, bound and lowered, on the two engines, all results as text.

The tables of `tables.sql` exist on all three. An outcome is a list of rows of text (None for NULL) or an `Error` with
SQLSTATE and message. The trailing zeros of a numeric whose display scale depends on the value are not compared.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import pyarrow as pa

from adapter.engines.common.lookups import Indexes, lookup_of
from adapter.engines.common.result_batches import ResultShape
from adapter.engines.common.row_scans import row_scan_of
from adapter.engines.common.scan_sources import scan_needs
from adapter.engines.local.database import OptimizerErrors, RowSource
from adapter.engines.local.scans import ConstantColumns
from adapter.engines.spark.context_settings import PARSER_SETTINGS
from adapter.engines.spark.python.functions import DAEMON, PYTHON_PATH, define
from adapter.engines.spark.runtime import forget_context
from frontend.encoding.encoders import column_encoder
from frontend.encoding.settings import FormatSettings
from planner.analyze import analyze
from planner.dialects.engine_name import EngineName
from planner.errors import SqlError
from planner.functions.engines.spark import NAMES
from planner.functions.forms.form import SessionSettings
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Field, Limit, Literal
from planner.ir.physical import arrow_schema, arrow_type
from planner.ir.rewrite import walk
from planner.lowering.engine_errors import translate
from planner.lowering.fragments.sources import ScanSource, constants_layout
from planner.lowering.lower import lower
from planner.resolution.session_values import substitute
from planner.resolution.statement import BindContext
from planner.syntax.parse import split_and_parse
from planner.types import types
from planner.types.system_relations import BuiltinRelations
from planner.types.types import SqlType, column_type
from planner.values.text_values import format_numeric, parse_text
from storage.catalog.model import CatalogSnapshot, CatalogUpdate, Column, Relation
from storage.catalog.standard_objects import bootstrap_updates
from storage.timestamps.csn import Csn

HERE = Path(__file__).parent
FIRST_OID = 20000

Row: TypeAlias = tuple["str | None", ...]


@dataclass(frozen=True, slots=True)
class Error:
    """A statement that failed."""

    sqlstate: str
    message: str


Outcome: TypeAlias = "list[Row] | Error"


class Oracle:
    """The real PostgreSQL."""

    def __init__(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as postgres:
            postgres.execute("DROP DATABASE IF EXISTS differential WITH (FORCE)")
            postgres.execute("CREATE DATABASE differential TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'")
        self.connection = psycopg.connect(dsn, dbname="differential", autocommit=True)
        self.connection.execute("SET timezone = 'UTC'")
        self.connection.execute("CREATE SCHEMA differential")
        self.connection.execute("SET search_path = differential")
        self.connection.execute((HERE / "tables.sql").read_text())

    def run(self, sql: str, timezone: str = "UTC") -> Outcome:
        """The statement's rows as PostgreSQL prints them."""
        with self.connection.cursor() as cursor:
            cursor.execute(f"SET timezone = '{timezone}'")
            try:
                cursor.execute(sql, prepare=False)
            except psycopg.Error as error:
                message = error.diag.message_primary or ""
                return Error(error.sqlstate or "", message)
            result = cursor.pgresult
            assert result is not None
            return [
                tuple(
                    None if (value := result.get_value(row, column)) is None else value.decode()
                    for column in range(result.nfields)
                )
                for row in range(result.ntuples)
            ]

    def tables(self) -> list[tuple[str, list[tuple[str, int, int]], list[Row]]]:
        """Name, columns (name, type, typmod) and rows of each test table."""
        found = []
        names = self.connection.execute(
            "select relname, oid from pg_class where relnamespace = 'differential'::regnamespace and relkind = 'r'"
            " order by oid"
        ).fetchall()
        for name, oid in names:
            columns = self.connection.execute(
                "select attname, atttypid::int8, atttypmod from pg_attribute where attrelid = %s and attnum > 0 order"
                " by attnum",
                (oid,),
            ).fetchall()
            rows = self.run(f"select * from {name}")
            assert not isinstance(rows, Error)
            found.append((name, [(c[0], c[1], c[2]) for c in columns], rows))
        return found


class Engines:
    """Both engines over Arrow copies of the oracle's tables. Spark starts when it is first used."""

    def __init__(self, oracle: Oracle) -> None:
        self.tables: dict[str, pa.Table] = {}
        updates = list(bootstrap_updates())
        self.oids: dict[int, str] = {}
        for number, (name, columns, rows) in enumerate(oracle.tables()):
            oid = FIRST_OID + number
            types_ = [column_type(type_oid, typmod) for _, type_oid, typmod in columns]
            updates.append(
                CatalogUpdate(
                    record=Relation(
                        oid=oid, name=name, schema=2200, owner=10, kind="r",
                        columns=tuple(
                            Column(attnum=index, name=column, type_oid=type_oid, typmod=typmod)
                            for index, (column, type_oid, typmod) in enumerate(columns, 1)
                        ),
                    ),
                    diff=1,
                )
            )  # fmt: skip
            self.tables[name] = _arrow_table(types_, rows)
            self.oids[oid] = name
        self.catalog = CatalogSnapshot.empty().apply(updates, Csn(1))
        self._local: Any = None
        self._spark: Any = None

    def bind(self, sql: str, timezone: str = "UTC") -> BoundQuery:
        """Parses and binds a query, its session values replaced by fixed ones."""
        context = BindContext(
            catalog=self.catalog, search_path=("pg_catalog", "public"),
            settings={"TimeZone": timezone, "DateStyle": "ISO, MDY", "IntervalStyle": "postgres"},
            user="postgres", database="postgres", system_relations=BuiltinRelations(),
        )  # fmt: skip
        (parsed,) = split_and_parse(sql)
        bound = analyze(parsed, context)
        assert isinstance(bound, BoundQuery), "a query"
        return bound

    def run(self, sql: str, engine: EngineName, timezone: str = "UTC") -> Outcome:
        """Binds, lowers and executes one query."""
        try:
            bound = self.bind(sql, timezone)
            text, fields = self.lower(bound, engine, timezone)
            rows = _rows(self.execute(text, engine), fields, FormatSettings(time_zone=timezone))
            if engine == "local":
                self._check_lookup(bound, sql, rows, FormatSettings(time_zone=timezone))
                self._check_row_scan(bound, sql, rows, FormatSettings(time_zone=timezone))
            return rows
        except SqlError as error:
            return Error(error.sqlstate, error.message)

    def _check_lookup(self, bound: BoundQuery, sql: str, rows: list[Row], settings: FormatSettings) -> None:
        """What the local engine answers without its database is what it answers with it."""
        lookup = lookup_of(bound.rel)
        if lookup is not None:
            held, indexes = self.tables[self.oids[lookup.relation_oid]].combine_chunks(), Indexes()
            for how in ("without an index", "with an index"):
                picked = lookup.answer(held, (), indexes)
                if picked is None:
                    return
                table = pa.Table.from_batches([ResultShape(bound.rel.fields).conform(picked)])
                found = _rows(table, bound.rel.fields, settings)
                assert found == rows, f"{sql}\n  looked up {how}: {found}\n  by the database: {rows}"

    def _check_row_scan(self, bound: BoundQuery, sql: str, rows: list[Row], settings: FormatSettings) -> None:
        """What the local engine computes with Python's values is what it computes with its database."""
        tables = scan_needs(bound.rel).tables
        relation = self.catalog.get(*tables) if len(tables) == 1 else None
        scan = row_scan_of(bound.rel, relation) if isinstance(relation, Relation) else None
        if scan is not None and relation is not None:
            held = self.tables[self.oids[relation.oid]].combine_chunks()
            computed = scan.answer(held, (), Indexes())
            if computed is None:
                return
            table = pa.Table.from_batches([ResultShape(bound.rel.fields).conform(computed)])
            found = _rows(table, bound.rel.fields, settings)
            # Which of several rows a LIMIT leaves, and the order of equal ones, is nobody's to say.
            is_cut = any(isinstance(node, Limit) for node in walk(bound.rel))
            same = len(found) == len(rows) if is_cut else sorted(map(repr, found)) == sorted(map(repr, rows))
            assert same, f"{sql}\n  row by row: {found}\n  by the database: {rows}"

    def lower(self, bound: BoundQuery, engine: EngineName, timezone: str = "UTC") -> tuple[str, tuple[Field, ...]]:
        """The engine's SQL."""
        sources = {
            oid: ScanSource(name, f"{name}{{layout}}" if engine == "local" else None) for oid, name in self.oids.items()
        }
        extendable = frozenset(sources) if engine == "local" else frozenset[int]()
        lowered = lower(bound.rel, engine, extendable, (), SessionSettings(timezone=timezone))
        for oid, held in lowered.constants.items():
            if held:
                constants = tuple(constant for constant in held if isinstance(constant, Literal))
                name = self.oids[oid]
                layout = constants_layout([constant.type for constant in constants])
                self.local.register(name + layout, RowSource(ConstantColumns().of(self.tables[name], constants)))
        return lowered.text(sources), lowered.fields

    def execute(self, text: str, engine: EngineName) -> pa.Table:
        """Runs the engine's SQL. Raises SqlError."""
        if engine == "local":
            try:
                return self.local.sql(text).to_arrow_table()
            except SqlError:
                raise
            except OptimizerErrors:
                return self._unoptimized(text)
            except Exception as error:
                raise translate("local", str(error)) from error
        try:
            return self.spark.sql(text).toArrow()
        except Exception as error:
            raise _spark_error(error) from error

    def _unoptimized(self, text: str) -> pa.Table:
        """What the local engine gives as it does where its optimizer fails."""
        self.local.execute("SET enable_optimizer = false")
        try:
            return self.local.sql(text).to_arrow_table()
        finally:
            self.local.execute("SET enable_optimizer = true")

    @property
    def local(self) -> Any:
        """DuckDB with the settings in force and the tables."""
        if self._local is None:
            import duckdb

            from planner.functions.engines import local as local_udfs

            connection = duckdb.connect()
            for setting in (
                "integer_division=true", "ieee_floating_point_ops=false", "default_null_order='postgres'",
                "TimeZone='UTC'",
            ):  # fmt: skip
                connection.execute(f"SET {setting}")
            local_udfs.register(connection)
            for name, table in self.tables.items():
                connection.register(f"arrow_{name}", table)
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow_{name}")
            self._local = connection
        return self._local

    @property
    def spark(self) -> Any:
        """A local Spark session with the settings in force and the tables."""
        if self._spark is None:
            self._spark = _start_spark()
            for name, table in self.tables.items():
                _spark_view(self._spark, name, table)
        return self._spark

    def close(self) -> None:
        """Stops what was started."""
        if self._spark is not None:
            gateway = self._spark.sparkContext._gateway
            self._spark.stop()
            gateway.shutdown()
        if self._local is not None:
            self._local.close()


def _start_spark() -> Any:
    import logging

    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import udf

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    # What another module's tests have used is over, and its JVM with it.
    forget_context(SparkContext)
    builder = SparkSession.builder.master("local[1]").appName("differential")
    for name, value in SPARK_SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.sparkContext.environment["PYTHONPATH"] = PYTHON_PATH
    session.sparkContext.pythonExec = sys.executable
    define(session, NAMES, udf)
    return session


SPARK_SETTINGS = {
    "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false",
    "spark.sql.datetime.java8API.enabled": "true", "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true", "spark.sql.timeType.enabled": "true",
    "spark.sql.caseSensitive": "true", "spark.driver.memory": "1g", "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false", "spark.sql.codegen.wholeStage": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true", "spark.sql.pyspark.jvmStacktrace.enabled": "false",
    "spark.sql.optimizer.maxIterations": "100", "spark.python.daemon.module": DAEMON,
    **PARSER_SETTINGS,
}  # fmt: skip


def _spark_view(session: Any, name: str, table: pa.Table) -> None:
    """A view over the table's rows, timestamps without time zone kept as such."""
    path = f"{session.conf.get('spark.local.dir', '/tmp')}"
    import tempfile

    import pyarrow.parquet as pq

    file = Path(tempfile.mkdtemp(dir=path if Path(path).is_dir() else None)) / f"{name}.parquet"
    pq.write_table(table, file)
    columns = ", ".join(f"{field.name} {_spark_type(field.type)}" for field in table.schema)
    session.read.schema(columns).parquet(str(file)).createOrReplaceTempView(name)


def _spark_type(type: pa.DataType) -> str:
    if pa.types.is_list(type):
        return f"ARRAY<{_spark_type(type.value_type)}>"
    if pa.types.is_struct(type):
        return "STRUCT<months: INT, days: INT, micros: BIGINT>"
    if pa.types.is_decimal(type):
        return f"DECIMAL({type.precision},{type.scale})"
    if pa.types.is_timestamp(type):
        return "TIMESTAMP" if type.tz else "TIMESTAMP_NTZ"
    if pa.types.is_time(type):
        return "TIME(6)"
    return {
        "bool": "BOOLEAN", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
        "string": "STRING", "binary": "BINARY", "date32[day]": "DATE",
    }[str(type)]  # fmt: skip


def _spark_error(error: Exception) -> SqlError:
    from pyspark.errors import PySparkException

    condition, parameters = None, {}
    if isinstance(error, PySparkException):
        condition = error.getCondition()
        parameters = error.getMessageParameters() or {}
    message = str(error)
    match = re.search(r"SparkRuntimeException: (.*)|SparkArithmeticException: (.*)", message)
    if condition is None and match is not None:
        message = match[1] or match[2]
    return translate("spark", message, condition, parameters)


def _arrow_table(types_: Sequence[SqlType], rows: Sequence[Row]) -> pa.Table:
    columns = []
    for index, type in enumerate(types_):
        values = [None if row[index] is None else _physical(parse_text(row[index] or "", type), type) for row in rows]
        columns.append(pa.array(values, arrow_type(type)))
    return pa.Table.from_arrays(columns, names=[f"c{index}" for index in range(1, len(types_) + 1)])


def _physical(value: Any, type: SqlType) -> Any:
    if type.oid == types.INTERVAL:
        return {"months": value.months, "days": value.days, "micros": value.micros}
    if isinstance(value, tuple):
        return list(value)
    if types.is_wide(type):
        return format_numeric(value)
    if type.oid == types.NUMERIC:
        assert type.shape is not None
        return round(value, type.shape.scale)
    return value


def _rows(table: pa.Table, fields: Sequence[Field], settings: FormatSettings) -> list[Row]:
    schema = arrow_schema(fields)
    columns: list[list[str | None]] = []
    for index, field in enumerate(fields):
        wanted = schema.field(index).type
        column = table.column(index)
        if column.type != wanted:
            column = _conform(column, wanted)
        array = column.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0) if array.num_chunks else pa.array([], wanted)
        encoded = column_encoder(field.type, wanted, 0, settings)(array).as_nullable()
        columns.append([None if value is None else value.decode() for value in encoded.to_pylist()])
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _conform(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    from adapter.engines.common.arrow_casts import cast

    return pa.chunked_array([cast(chunk, wanted) for chunk in column.chunks], wanted)


def comparable(outcome: Outcome, fields: Sequence[Field] | None) -> Outcome:
    """The outcome with insignificant trailing zeros removed."""
    if isinstance(outcome, Error) or fields is None:
        return outcome
    loose = [_loose(field.type) for field in fields]
    if not any(loose):
        return outcome
    return [
        tuple(trimmed(value) if flag and value is not None else value for value, flag in zip(row, loose, strict=True))
        for row in outcome
    ]


def _loose(type: SqlType) -> bool:
    return type.shape is not None and not type.shape.exact_scale


def trimmed(value: str) -> str:
    """A number without the zeros at the end of its fraction."""
    return re.sub(r"(\.\d*?)0+(?=$|[,}])", lambda match: match[1] if match[1] != "." else "", value)


__all__ = ["Engines", "Error", "Literal", "Oracle", "Outcome", "comparable", "substitute", "trimmed"]
