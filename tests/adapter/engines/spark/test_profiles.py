"""Spark's settings by what a statement reads, and whether its tasks write."""

from __future__ import annotations

import pytest

from adapter.engines.spark.profiles import STORING, Mode, Profile, profile_settings

_PARTS = "spark.sql.files.minPartitionNum"


@pytest.mark.parametrize("profile", sorted(STORING, key=str))
def test_tasks_that_write_are_no_more_than_keep_all_cores_busy(profile: Profile) -> None:
    reading, storing = (profile_settings(Mode(profile, stores=stores), 2) for stores in (False, True))
    assert int(storing[_PARTS]) == 2 < int(reading[_PARTS])
    assert {name for name in reading if reading[name] != storing[name]} == {_PARTS}


@pytest.mark.parametrize("profile", sorted(set(Profile) - STORING, key=str))
def test_other_profiles_have_no_parts(profile: Profile) -> None:
    assert _PARTS not in profile_settings(Mode(profile), 2)
