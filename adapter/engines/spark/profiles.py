"""Spark's settings for a statement: chosen by the size of what it reads, and those that its user has set.

Users set some of them for their sessions, roles and databases (SET spark.sql.shuffle.partitions = 64). They are
settings of ours (`adapter.settings.catalogue`), checked when they are set; at its default each is what the profile
says. A statement with others runs in a session of Spark's own that has these (`Mode`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from adapter.settings.values import number_of
from planner.errors import ConfigurationLimitExceeded


class Profile(Enum):
    """Settings for a statement, by the stored bytes of what it reads.

    TINY: one task, interpreted: generating and compiling code costs more than it saves. SMALL: one wave of tasks,
    no adaptive execution, whose re-planning costs a few jobs. MEDIUM: more and smaller partitions. LARGE: adaptive
    execution picks partitions and join strategies by the real sizes. FRUGAL: what has run out of memory is carried out
    again in many partitions, which nobody puts together, and without copies of tables in each task.
    """

    TINY = "tiny"
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"
    FRUGAL = "frugal"


class Mode(Struct, frozen=True):
    """How a statement runs: by which profile, and with which of Spark's settings that its user has set. `stores`: its
    tasks write the rows."""

    profile: Profile
    settings: tuple[tuple[str, str], ...] = ()
    stores: bool = False


MAX_MODES = 256
"""Sessions of one Spark: a profile and the settings of users make one each."""


def check_modes(count: int) -> None:
    """Whether there can be another session beside `count` that there are. Raises 53400 when there are too many."""
    if count >= MAX_MODES:
        raise ConfigurationLimitExceeded(
            "too many different values of Spark's settings",
            detail=f"Up to {MAX_MODES} combinations are kept until Spark is started again.",
            hint="Use values that other sessions use, or the defaults.",
        )


TINY_BYTES = 1 << 20
TINY_ROWS = 20_000
SMALL_BYTES = 32 << 20
MEDIUM_BYTES = 512 << 20


def profile_for(read_bytes: int, read_rows: int, *, generates: bool) -> Profile:
    """The profile for a statement that reads stored parts of this size. `generates`: it makes rows of its own (a
    set-returning function, recursion), so the size of its input says little."""
    if read_bytes <= TINY_BYTES and read_rows <= TINY_ROWS and not generates:
        return Profile.TINY
    if read_bytes <= SMALL_BYTES:
        return Profile.SMALL
    return Profile.MEDIUM if read_bytes <= MEDIUM_BYTES else Profile.LARGE


STORING = frozenset({Profile.SMALL, Profile.MEDIUM})
"""Whose statements have sessions of their own where they store rows."""


def profile_settings(mode: Mode, cores: int) -> dict[str, str]:
    """Spark's settings for statements of `mode` on so many `cores`."""
    found = _settings_of(mode.profile, cores)
    if mode.stores:
        # A task makes a file, and each costs the making of its encoders: no more files than keep all cores busy.
        found["spark.sql.files.minPartitionNum"] = str(cores)
    return found


def _settings_of(profile: Profile, cores: int) -> dict[str, str]:
    match profile:
        case Profile.TINY:
            return {
                "spark.sql.adaptive.enabled": "false",
                "spark.sql.shuffle.partitions": "1",
                "spark.sql.leafNodeDefaultParallelism": "1",
                "spark.sql.codegen.wholeStage": "false",
                "spark.sql.codegen.factoryMode": "NO_CODEGEN",
                # A broadcast is a job of its own; tiny tables are one partition each anyway.
                "spark.sql.autoBroadcastJoinThreshold": "-1",
            }
        case Profile.SMALL:
            return {
                "spark.sql.adaptive.enabled": "false",
                "spark.sql.shuffle.partitions": str(min(cores, 8)),
                # Few large files are read in pieces, so that all cores end at about the same time.
                "spark.sql.files.minPartitionNum": str(2 * cores),
                "spark.sql.files.openCostInBytes": str(1 << 20),
            }
        case Profile.MEDIUM:
            return {
                "spark.sql.adaptive.enabled": "false",
                "spark.sql.shuffle.partitions": str(2 * cores),
                "spark.sql.files.minPartitionNum": str(4 * cores),
            }
        case Profile.LARGE:
            return {
                "spark.sql.adaptive.enabled": "true",
                # Keys alone are packed so well that a partition of Spark's 64 MB is tens of millions of rows to sort.
                "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(16 << 20),
                "spark.sql.shuffle.partitions": str(max(200, 4 * cores)),
            }
        case Profile.FRUGAL:
            return {
                "spark.sql.adaptive.enabled": "true",
                "spark.sql.adaptive.coalescePartitions.enabled": "false",
                "spark.sql.autoBroadcastJoinThreshold": "-1",
                "spark.sql.files.maxPartitionBytes": str(32 << 20),
                "spark.sql.shuffle.partitions": str(max(800, 16 * cores)),
            }


POOL = "spark.scheduler.pool"
"""The pool of Spark's scheduler; empty: that of the statement's class."""

_SWITCHES = (
    "spark.sql.adaptive.coalescePartitions.enabled",
    "spark.sql.adaptive.enabled",
    "spark.sql.adaptive.skewJoin.enabled",
    "spark.sql.codegen.wholeStage",
    "spark.sql.join.preferSortMergeJoin",
)
"""``auto``, ``on`` or ``off``."""

_KILOBYTES = (
    "spark.sql.adaptive.advisoryPartitionSizeInBytes",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.files.maxPartitionBytes",
)
_COUNTS = ("spark.sql.files.minPartitionNum", "spark.sql.shuffle.partitions")
"""Zero is the default."""


def spark_settings(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What Spark is told of a session's settings: names and values, of those that are not at their default."""
    found = []
    for name in _SWITCHES:
        value = values.get(name, "auto")
        if value != "auto":
            found.append((name, "true" if value == "on" else "false"))
    for name in (*_KILOBYTES, *_COUNTS):
        number = int(number_of(name, values[name])) if name in values else 0
        if number:
            found.append((name, f"{number}k" if name in _KILOBYTES and number > 0 else str(number)))
    return tuple(found)
