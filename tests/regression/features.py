"""What statements of the regression SQL need that Tidegate has not, by what can be seen of them.

The first pattern that is found decides. Each is looked for in four parts, a line each or more: how the answers differ,
our error, PostgreSQL's error, the statement.
"""

from __future__ import annotations

import re


def _seen(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


def _refused(pattern: str) -> re.Pattern[str]:
    """Found in our error, where that is a refusal of what is not supported."""
    return re.compile(rf"\A[^\n]*\n(?:0A000|42883|55000) (?=[^\n]*(?:{pattern}))", re.IGNORECASE)


FEATURES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "functions in C: the library of the tests is on neither server",
        _seen(r"language\s+'?c\b|regress\.so|^\s*load\b"),
    ),
    ("EXPLAIN: the plans are other ones", _seen(r"\Aother rows\n.*\n.*\n\s*explain\b")),
    ("partitioned tables", _refused(r"partition")),
    ("inheritance", _refused(r"inherit")),
    ("procedural code: DO and LANGUAGE plpgsql", _seen(r"\A.*\n0A000 [\s\S]*language\s+'?plpgsql")),
    ("procedural code: DO and LANGUAGE plpgsql", _refused(r"^DO is")),
    ("triggers and event triggers", _refused(r"TRIGGER|(?:Enable|Disable)(?:AlwaysTrig|Trig)")),
    ("functions and procedures of users", _refused(r"(?:FUNCTION|PROCEDURE|ROUTINE|CALL)\b.* is not supported")),
    ("row security", _refused(r"RowSecurity|POLICY")),
    ("rules", _refused(r"\bRULE\b")),
    (
        "privileges: GRANT, REVOKE, membership, owners",
        _refused(r"GRANT|REVOKE|PRIVILEGES|membership|OWNED|ChangeOwner"),
    ),
    ("privileges: not checked", _seen(r"\A.*\n.*\n42501 (?:permission denied|must be)")),
    ("domains", _refused(r"DOMAIN")),
    ("shell and base types", _refused(r"shell types")),
    (
        "operators, operator classes and families, aggregates, casts of users",
        _refused(r"OPERATOR|AGGREGATE|CREATE CAST"),
    ),
    ("numeric beyond 38 digits, NaN, Infinity, negative scale", _refused(r"numeric")),
    ("numeric beyond 38 digits, NaN, Infinity, negative scale", _seen(r"\A.*\n22003 value overflows numeric format")),
    ("multidimensional arrays", _refused(r"multidimensional")),
    ("materialized views", _refused(r"MATERIALIZED")),
    ("two-phase commit", _seen(r"\A.*\n.*prepared transactions|^\s*(?:commit|rollback)\s+prepared")),
    ("logical replication: publications and subscriptions", _refused(r"PUBLICATION|SUBSCRIPTION")),
    ("foreign data", _refused(r"FOREIGN|SERVER|USER MAPPING")),
    ("text search", _refused(r"TEXT|tsvector|tsquery|ts_")),
    ("other access methods than btree", _refused(r"access method")),
    ("schema elements in CREATE SCHEMA", _refused(r"schema elements")),
    ("tablespaces", _refused(r"TABLESPACE|SetTableSpace")),
    ("the method .datetime() of jsonpath", _refused(r"jsonpath")),
    (
        "BC dates, and what lies beyond the years that are stored",
        _seen(r"\A.*\n22008 (?:date|timestamp).*out of range"),
    ),
    ("geometry", _seen(r"\A.*\n.*\b(?:point|lseg|line|box|path|polygon|circle)\b")),
    ("geometry", _seen(r"\A.*\n.*\n.*type (?:point|lseg|line|box|path|polygon|circle)\b")),
    ("collations of ICU and of the operating system", _seen(r"\A.*\n42704 collation")),
)
