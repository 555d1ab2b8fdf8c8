"""What dlt sees: `dlt_session.py URL FEATURE` prints it. Its pipelines keep their state in the folder where it runs."""

import datetime
import decimal
import os
import pathlib
import sys

os.environ |= {
    "RUNTIME__DLTHUB_TELEMETRY": "false",
    "RUNTIME__LOG_LEVEL": "CRITICAL",
    "NORMALIZE__WORKERS": "1",
    "LOAD__WORKERS": "4",
}

import dlt
from dlt.destinations.exceptions import DatabaseException
from dlt.pipeline.exceptions import PipelineStepFailed

URL = sys.argv[1].replace("postgres@", "postgres:not-asked-for@")


def pipeline(name, dataset="shop"):
    """A pipeline to the server."""
    return dlt.pipeline(
        pipeline_name=name,
        destination=dlt.destinations.postgres(URL),
        dataset_name=dataset,
        pipelines_dir=str(pathlib.Path("kept").absolute()),
    )


def people(numbers, **more):
    """Rows of many types, with rows of their own inside."""
    for number in numbers:
        yield {
            "id": number,
            "name": f'it\'s {number}\t\\ "name"',
            "price": decimal.Decimal("12.50") * number,
            "day": datetime.date(2024, 2, number),
            "at": datetime.datetime(2024, 2, number, 12, 0, 0, 123456, tzinfo=datetime.UTC),
            "ok": number % 2 == 0,
            "ratio": number / 4,
            "raw": b"\x00\xff",
            "details": {"a": {"b": number}},
            "marks": [{"mark": f"m{number}", "of": [1, 2]}, {"mark": None}],
        } | more


def show(run, sql):
    """What the server has."""
    with run.sql_client() as client, client.execute_query(sql) as cursor:
        for row in cursor.fetchall():
            print(*row)


def counts(run):
    """Of the tables, and what their columns are."""
    show(run, "SELECT count(*), sum(price), max(at), sum(details__a__b) FROM people")
    show(run, "SELECT count(*), min(mark) FROM people__marks")
    show(
        run,
        "SELECT table_name, column_name, data_type, is_nullable, numeric_precision, numeric_scale "
        "FROM information_schema.columns WHERE table_schema = 'shop' AND table_name LIKE 'people%' "
        "ORDER BY 1, ordinal_position",
    )


def append():
    """Loads, and loads more."""
    run = pipeline("first")
    run.run(people(range(1, 11)), table_name="people")
    counts(run)
    run.run(people(range(11, 16), later="a new column"), table_name="people")
    counts(run)
    show(run, "SELECT count(*), sum(status) FROM _dlt_loads")


def change():
    """Replaces by each strategy, merges by each strategy."""
    for strategy in ("truncate-and-insert", "insert-from-staging", "staging-optimized"):
        os.environ["DESTINATION__REPLACE_STRATEGY"] = strategy
        run = pipeline("replacing")
        for high in (8, 5):
            run.run(people(range(1, high)), table_name="replaced", write_disposition="replace")
        print(strategy)
        show(run, "SELECT count(*), sum(price) FROM replaced")
    for strategy in ("delete-insert", "upsert", "scd2"):
        name = "merged_" + strategy.replace("-", "_")
        run = pipeline("merging")
        for low in (1, 5):
            rows = [{"id": at, "name": f"from {low}"} for at in range(low, low + 8)]
            run.run(
                dlt.resource(
                    rows, name=name, primary_key="id", write_disposition={"disposition": "merge", "strategy": strategy}
                )
            )
        print(strategy)
        show(run, f"SELECT id, name FROM {name} ORDER BY 1, 2")


def increment():
    """Takes only what is new, keeps its state in the database, and reads it from there anew."""

    @dlt.resource(primary_key="id")
    def events(at=dlt.sources.incremental("at", initial_value=0), most=10):
        yield [{"id": number, "at": number} for number in range(at.last_value, most)]

    run = pipeline("growing", "events_of")
    run.run(events(most=10))
    run.run(events(most=15))
    show(run, "SELECT count(*), max(at) FROM events")
    run.drop()
    again = pipeline("growing", "events_of")
    again.sync_destination()
    again.run(events(most=20))
    show(again, "SELECT count(*), max(at) FROM events")


def failure():
    """Ends where a table takes no row."""
    run = pipeline("failing", "broken")
    run.run([{"id": 1}], table_name="few", columns={"id": {"data_type": "bigint", "unique": True}})
    try:
        run.run([{"id": None}, {"id": 2}], table_name="few", columns={"id": {"nullable": False}})
    except PipelineStepFailed as error:
        print(error.step)
    with run.sql_client() as client:
        try:
            client.execute_sql("SELECT nothing FROM few")
        except DatabaseException as error:
            print(type(error).__name__, str(error).splitlines()[0])
        with client.begin_transaction() as block:
            client.execute_sql("INSERT INTO few VALUES (5, 'x', 'y')")
            block.rollback_transaction()
    show(run, "SELECT count(*) FROM few")


{"append": append, "change": change, "increment": increment, "failure": failure}[sys.argv[2]]()
