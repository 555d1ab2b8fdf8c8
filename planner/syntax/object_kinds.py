"""What PostgreSQL calls the kinds of objects that statements name."""

from __future__ import annotations

from planner.syntax.libpg_query import pb

RELATION_KINDS = {
    pb.OBJECT_TABLE: "table",
    pb.OBJECT_VIEW: "view",
    pb.OBJECT_MATVIEW: "materialized view",
    pb.OBJECT_INDEX: "index",
    pb.OBJECT_SEQUENCE: "sequence",
    pb.OBJECT_FOREIGN_TABLE: "foreign table",
}


ALTERED_KINDS = RELATION_KINDS | {pb.OBJECT_TYPE: "type"}
"""What ALTER changes the columns, or fields, of."""

OBJECT_KINDS = RELATION_KINDS | {
    pb.OBJECT_SCHEMA: "schema",
    pb.OBJECT_DATABASE: "database",
    pb.OBJECT_ROLE: "role",
    pb.OBJECT_TYPE: "type",
    pb.OBJECT_DOMAIN: "domain",
    pb.OBJECT_FUNCTION: "function",
    pb.OBJECT_PROCEDURE: "procedure",
    pb.OBJECT_ROUTINE: "routine",
    pb.OBJECT_AGGREGATE: "aggregate",
    pb.OBJECT_OPERATOR: "operator",
    pb.OBJECT_COLLATION: "collation",
    pb.OBJECT_CONVERSION: "conversion",
    pb.OBJECT_EXTENSION: "extension",
    pb.OBJECT_TRIGGER: "trigger",
    pb.OBJECT_RULE: "rule",
    pb.OBJECT_POLICY: "policy",
    pb.OBJECT_LANGUAGE: "language",
    pb.OBJECT_CAST: "cast",
    pb.OBJECT_TABLESPACE: "tablespace",
    pb.OBJECT_PUBLICATION: "publication",
    pb.OBJECT_SUBSCRIPTION: "subscription",
    pb.OBJECT_EVENT_TRIGGER: "event trigger",
    pb.OBJECT_FDW: "foreign-data wrapper",
    pb.OBJECT_FOREIGN_SERVER: "server",
    pb.OBJECT_STATISTIC_EXT: "statistics object",
    pb.OBJECT_TABCONSTRAINT: "constraint",
    pb.OBJECT_COLUMN: "column",
    pb.OBJECT_ATTRIBUTE: "attribute",
    pb.OBJECT_ACCESS_METHOD: "access method",
    pb.OBJECT_OPCLASS: "operator class",
    pb.OBJECT_OPFAMILY: "operator family",
    pb.OBJECT_TSCONFIGURATION: "text search configuration",
    pb.OBJECT_TSDICTIONARY: "text search dictionary",
    pb.OBJECT_TSPARSER: "text search parser",
    pb.OBJECT_TSTEMPLATE: "text search template",
    pb.OBJECT_TRANSFORM: "transform",
    pb.OBJECT_USER_MAPPING: "user mapping",
    pb.OBJECT_LARGEOBJECT: "large object",
}


def words_of(kind: str) -> str:
    """What statements and command tags call a kind of objects."""
    return _WORDS.get(kind) or kind.upper()


_WORDS = {
    "statistics object": "STATISTICS",
    "foreign-data wrapper": "FOREIGN DATA WRAPPER",
}
