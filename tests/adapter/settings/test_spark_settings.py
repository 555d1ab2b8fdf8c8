"""Spark's settings as settings of sessions."""

from __future__ import annotations

import pytest

from adapter.engines.spark.profiles import POOL, spark_settings
from adapter.settings.catalogue import SETTINGS
from adapter.settings.values import canonical_value, require_setting
from planner.errors import InvalidName, InvalidParameterValue

OURS = {setting.name: setting.default for setting in SETTINGS if setting.name.startswith("spark.")}


def test_nothing_is_told_of_defaults() -> None:
    assert POOL in OURS
    assert spark_settings(OURS) == ()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("spark.sql.shuffle.partitions", "64", "64"),
        ("SPARK.SQL.ADAPTIVE.ENABLED", "ON", "true"),
        ("spark.sql.codegen.wholeStage", "off", "false"),
        ("spark.sql.autoBroadcastJoinThreshold", "-1", "-1"),
        ("spark.sql.autoBroadcastJoinThreshold", "10MB", "10240k"),
        ("spark.sql.files.maxPartitionBytes", "512", "512k"),
    ],
)
def test_what_spark_is_told(name: str, text: str, expected: str) -> None:
    setting = require_setting(name)
    values = {**OURS, setting.name: canonical_value(setting, text)}
    assert spark_settings(values) == ((setting.name, expected),)


def test_every_setting_is_told() -> None:
    values = dict(OURS)
    for name in OURS:
        setting = require_setting(name)
        values[name] = canonical_value(setting, "on" if setting.type == "enum" else "1")
    assert {name for name, _ in spark_settings(values)} == OURS.keys() - {POOL}


@pytest.mark.parametrize("text", ["-2", "many", "1 day"])
def test_bad_values(text: str) -> None:
    with pytest.raises(InvalidParameterValue):
        canonical_value(require_setting("spark.sql.shuffle.partitions"), text)


@pytest.mark.parametrize("name", ["spark.sql.shuffle.partitions", "spark.sql.files.minPartitionNum"])
def test_no_session_asks_for_more_partitions_than_the_driver_can_hold(name: str) -> None:
    assert canonical_value(require_setting(name), "100000") == "100000"
    with pytest.raises(InvalidParameterValue, match="outside the valid range"):
        canonical_value(require_setting(name), "100001")


@pytest.mark.parametrize("name", ["spark.yarn.queue", "spark.driver.memory", "Spark.sql.ansi.enabled", "spark.x"])
def test_others_are_not_the_session_s(name: str) -> None:
    with pytest.raises(InvalidName, match="invalid configuration parameter name") as refused:
        require_setting(name)
    assert "--spark-conf" in str(refused.value.hint)
