"""Templates of the local engine taken over for Spark, and how Spark calls the functions in them."""

from __future__ import annotations

import pytest

from planner.functions.engines import spark as spark_udfs


def test_a_call_gives_its_value_or_raises() -> None:
    assert spark_udfs.portable("coalesce(tg_quote_literal({0}), 'NULL')") == (
        "coalesce(transform(array(tg_quote_literal({0})), "
        "u -> CASE WHEN u.e IS NULL THEN u.v ELSE raise_error(u.e) END)[0], 'NULL')"
    )


@pytest.mark.parametrize(
    ("local", "inside"),
    [
        ("CAST(tg_numeric_sqrt(CAST({0} AS VARCHAR)) AS {t})", "tg_numeric_sqrt(CAST({0} AS STRING))"),
        ("tg_jsonb_exists({0}, [{1}], 'any')", "tg_jsonb_exists({0}, array({1}), 'any')"),
        ("tg_make_time({0}, {1}, {2})", "tg_make_time({0}, {1}, {2})"),
        ("tg_jsonb_in({json:0})", "tg_jsonb_in({json:0})"),
        ("make_timestamptz(tg_date_bin({0}, epoch_us({1}), epoch_us({2})))", "unix_micros(CAST({1} AS TIMESTAMP))"),
    ],
)
def test_what_surrounds_a_call_is_spelled_as_spark_does(local: str, inside: str) -> None:
    portable = spark_udfs.portable(local)
    assert portable is not None
    assert inside in portable


@pytest.mark.parametrize(
    "local",
    [
        "lcm({0}, {1})",
        "list_transform(tg_timestamp_series({0}, {1}, {2}, ''), lambda m: make_timestamp(m))",
        "tg_similar_to_escape({0}, '\\')",
        "tg_catalog({token}, {0})",
    ],
)
def test_what_spark_cannot_say_is_left_out(local: str) -> None:
    assert spark_udfs.portable(local) is None


def test_a_null_argument_gives_null_and_an_error_is_text() -> None:
    assert spark_udfs.call("tg_initcap", None) == {"v": None, "e": None}
    assert spark_udfs.call("tg_initcap", "a b") == {"v": "A B", "e": None}
    failed = spark_udfs.call("tg_decode", "x", "hex")
    assert failed["v"] is None
    assert failed["e"].startswith("TG:22023:")


def test_names_in_a_statement() -> None:
    assert spark_udfs.used("SELECT tg_initcap(t1.c1), tg_nothing(1) FROM x") == {"tg_initcap"}


def test_a_call_over_a_subquery_is_in_no_lambda() -> None:
    made = spark_udfs.without_lambda(spark_udfs.checked("tg_initcap(tg_decode((SELECT 1), 'hex'))"))
    assert "->" not in made
    assert made.startswith("CASE WHEN tg_initcap(CASE WHEN tg_decode((SELECT 1), 'hex').e IS NULL")
