"""OVERLAPS (PostgreSQL 15, 9.9) of two spans of time, whatever their type."""

from __future__ import annotations


def overlapping(s1: str, e1: str, s2: str, e2: str) -> str:
    """The condition that the span from `s1` to `e1` and that from `s2` to `e2` overlap, of SQL texts that compare."""
    # The end of a span with a NULL is NULL, its start is what is known of it; of two NULLs nothing is known.
    a, b = f"least({s1}, {e1})", f"CASE WHEN {s1} > {e1} THEN {s1} WHEN {s1} IS NOT NULL THEN {e1} END"
    c, d = f"least({s2}, {e2})", f"CASE WHEN {s2} > {e2} THEN {s2} WHEN {s2} IS NOT NULL THEN {e2} END"
    known = f"{b} IS NOT NULL AND {d} IS NOT NULL"
    return (
        f"CASE WHEN {a} > {c} THEN CASE WHEN {d} IS NULL THEN NULL WHEN {a} < {d} THEN TRUE WHEN {b} IS NOT NULL THEN "
        f"FALSE END WHEN {a} < {c} THEN CASE WHEN {b} IS NULL THEN NULL WHEN {c} < {b} THEN TRUE WHEN {d} IS NOT NULL "
        f"THEN FALSE END WHEN {a} = {c} THEN CASE WHEN {known} THEN TRUE END END"
    )
