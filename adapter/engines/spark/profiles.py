"""Spark's settings for a statement, chosen by the size of what it reads."""

from __future__ import annotations

from enum import Enum


class Profile(Enum):
    """Settings for a statement, by the stored bytes of what it reads.

    TINY: one task, interpreted: generating and compiling code costs more than it saves. SMALL: one wave of tasks,
    no adaptive execution, whose re-planning costs a few jobs. MEDIUM: more and smaller partitions. LARGE: adaptive
    execution picks partitions and join strategies by the real sizes.
    """

    TINY = "tiny"
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


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


def profile_settings(profile: Profile, cores: int) -> dict[str, str]:
    """Spark's settings for statements of `profile` on so many `cores`."""
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
                "spark.sql.shuffle.partitions": str(max(200, 4 * cores)),
            }
