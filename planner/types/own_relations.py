"""The server's own relations, in the schema `tidegate`: what PostgreSQL has no place for, each with what it tells.

The comments are those of pg_description, and what `tidegate.columns` lists. No catalog stores the relations: the system
catalogs show them in every database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.types.types import BOOL, FLOAT8, INT4, INT8, INTERVAL, NAME, OID, TEXT, TIMESTAMPTZ


@dataclass(frozen=True, slots=True)
class OwnColumn:
    """The type of a column, and what it tells."""

    type_oid: int
    comment: str


@dataclass(frozen=True, slots=True)
class OwnRelation:
    """One of the server's own relations. Oids are ones that PostgreSQL never gives out. Those for `monitors` only roles
    that may read all statistics (pg_read_all_stats) read, unless others are granted it; the others everybody."""

    oid: int
    comment: str
    columns: Mapping[str, OwnColumn]
    monitors: bool = False


_CSN = "a commit sequence number, which begins with milliseconds since 1970"

OWN_RELATIONS: Mapping[str, OwnRelation] = {
    "materialized_views": OwnRelation(
        15981,
        "materialized views of this database, with the last refresh of each",
        {
            "schemaname": OwnColumn(NAME, "schema of the view"),
            "viewname": OwnColumn(NAME, "name of the view"),
            "refresh": OwnColumn(TEXT, "who keeps it fresh: manual, every (a server, again and again) or on commit"),
            "every": OwnColumn(INTERVAL, "the least time between two refreshes of a view refreshed every so often"),
            "is_populated": OwnColumn(BOOL, "whether it can be read"),
            "frontier": OwnColumn(INT8, f"moment that the stored rows are of: {_CSN}"),
            "frontier_time": OwnColumn(TIMESTAMPTZ, "the same as a time"),
            "lag": OwnColumn(INTERVAL, "how far the snapshot is ahead of the frontier; 0 when nothing changed"),
            "is_exact": OwnColumn(BOOL, "whether the stored rows are what the query would give now"),
            "refreshed_at": OwnColumn(TIMESTAMPTZ, "end of the last refresh"),
            "refresh_ms": OwnColumn(FLOAT8, "milliseconds that it took"),
            "changed_rows": OwnColumn(INT8, "rows that it wrote and deleted"),
            "method": OwnColumn(TEXT, "what it did: recomputed everything, or worked out the change"),
        },
    ),
    "iceberg_tables": OwnRelation(
        15982,
        "published tables that you may read, as Iceberg's JDBC catalog has them",
        {
            "catalog_name": OwnColumn(TEXT, "name of the database"),
            "table_namespace": OwnColumn(TEXT, "schema of the table"),
            "table_name": OwnColumn(TEXT, "name of the table"),
            "metadata_location": OwnColumn(TEXT, "where the newest metadata is"),
            "previous_metadata_location": OwnColumn(TEXT, "where the metadata before it is"),
            "iceberg_type": OwnColumn(TEXT, "TABLE"),
        },
    ),
    "iceberg_namespace_properties": OwnRelation(
        15983,
        "schemas of published tables, as Iceberg's JDBC catalog has them",
        {
            "catalog_name": OwnColumn(TEXT, "name of the database"),
            "namespace": OwnColumn(TEXT, "name of the schema"),
            "property_key": OwnColumn(TEXT, "exists"),
            "property_value": OwnColumn(TEXT, "true"),
        },
    ),
    "view_lineage": OwnRelation(
        15984,
        "which columns of tables the columns of views are made of",
        {
            "view": OwnColumn(OID, "oid of the view"),
            "schemaname": OwnColumn(NAME, "schema of the view"),
            "viewname": OwnColumn(NAME, "name of the view"),
            "column_name": OwnColumn(NAME, "column of the view"),
            "source": OwnColumn(OID, "oid of a relation that it is made of"),
            "source_schema": OwnColumn(NAME, "schema of that relation"),
            "source_name": OwnColumn(NAME, "name of that relation"),
            "source_column": OwnColumn(NAME, "column of that relation"),
        },
    ),
    "sessions": OwnRelation(
        15985,
        "sessions of all servers of the environment; without pg_read_all_stats, of those of others that they are there",
        {
            "pid": OwnColumn(INT4, "process id that the client was told of"),
            "server": OwnColumn(TEXT, "server process that serves it, as in tidegate.servers"),
            "worker": OwnColumn(INT4, "number of the worker, of servers that have several"),
            "usename": OwnColumn(NAME, "role that logged in"),
            "datname": OwnColumn(NAME, "database"),
            "application_name": OwnColumn(TEXT, "name that the client gave itself"),
            "client_addr": OwnColumn(TEXT, "address and port of the client"),
            "began_at": OwnColumn(TIMESTAMPTZ, "when it came in"),
            "state": OwnColumn(TEXT, "active, idle or idle in transaction"),
            "isolation": OwnColumn(TEXT, "isolation level of its transaction"),
            "transaction_began_at": OwnColumn(TIMESTAMPTZ, "when its transaction began"),
            "snapshot_csn": OwnColumn(INT8, f"moment that its transaction reads at: {_CSN}"),
            "waits_for_lock": OwnColumn(BOOL, "whether it waits for a lock"),
            "engine": OwnColumn(TEXT, "engine of its latest statement: local, spark, or none"),
            "workload_class": OwnColumn(TEXT, "class that the statement runs in"),
            "waits_for_slot": OwnColumn(BOOL, "whether it waits for a place in that class"),
            "statement": OwnColumn(TEXT, "its latest statement"),
            "statement_began_at": OwnColumn(TIMESTAMPTZ, "when the statement that runs began; NULL when none runs"),
        },
    ),
    "statements": OwnRelation(
        15986,
        "statements that run, on all servers of the environment",
        {
            "pid": OwnColumn(INT4, "process id of the session"),
            "server": OwnColumn(TEXT, "server process, as in tidegate.servers"),
            "usename": OwnColumn(NAME, "role that logged in"),
            "datname": OwnColumn(NAME, "database"),
            "statement": OwnColumn(TEXT, "its text"),
            "engine": OwnColumn(TEXT, "engine: local, spark, or none"),
            "waits_for_lock": OwnColumn(BOOL, "whether it waits for a lock"),
            "workload_class": OwnColumn(TEXT, "class that it runs in"),
            "waits_for_slot": OwnColumn(BOOL, "whether it waits for a place in that class"),
            "queued": OwnColumn(INTERVAL, "how long it has waited for one"),
            "began_at": OwnColumn(TIMESTAMPTZ, "when it began"),
            "elapsed": OwnColumn(INTERVAL, "how long it has run"),
        },
    ),
    "transactions": OwnRelation(
        15987,
        "transactions that are not over",
        {
            "kind": OwnColumn(
                TEXT,
                "open; prepared; staged (its files are still being written); unapplied (committed, but a shard has not"
                " taken it over yet, which readers need not wait for)",
            ),
            "pid": OwnColumn(INT4, "process id of the session, of an open one"),
            "gid": OwnColumn(TEXT, "name of a prepared one"),
            "xid": OwnColumn(INT8, "transaction id of a prepared one"),
            "txid": OwnColumn(TEXT, "name of the record of a staged one"),
            "process": OwnColumn(TEXT, "server process that writes a staged one"),
            "shard": OwnColumn(TEXT, "shard that has not taken an unapplied one over"),
            "csn": OwnColumn(INT8, f"moment that an open one reads at, or that another commits at: {_CSN}"),
            "began_at": OwnColumn(TIMESTAMPTZ, "when an open one began; of others, the time of csn"),
        },
        monitors=True,
    ),
    "shards": OwnRelation(
        15988,
        "tables of this database as they are stored",
        {
            "shard": OwnColumn(TEXT, "name of the shard"),
            "relid": OwnColumn(OID, "oid of the table"),
            "relation": OwnColumn(NAME, "name of the table"),
            "since": OwnColumn(INT8, f"what can be read without the archive of its history begins here: {_CSN}"),
            "since_time": OwnColumn(TIMESTAMPTZ, "the same as a time"),
            "upper": OwnColumn(INT8, f"it has taken over all commits before this one: {_CSN}"),
            "upper_time": OwnColumn(TIMESTAMPTZ, "the same as a time"),
            "parts": OwnColumn(INT4, "files and small parts, of rows and of deletions"),
            "rows": OwnColumn(INT8, "rows"),
            "bytes": OwnColumn(INT8, "bytes"),
            "unapplied": OwnColumn(INT4, "commits that it has not taken over yet"),
        },
        monitors=True,
    ),
    "servers": OwnRelation(
        15989,
        "processes that have the environment open",
        {
            "process": OwnColumn(TEXT, "name of the process"),
            "is_this": OwnColumn(BOOL, "whether it serves this session"),
            "is_alone": OwnColumn(BOOL, "whether it gives out timestamps by itself, since no other has joined"),
            "read_lower": OwnColumn(INT8, f"the earliest moment that it may read at: {_CSN}"),
            "read_lower_time": OwnColumn(TIMESTAMPTZ, "the same as a time"),
            "renewed_at": OwnColumn(TIMESTAMPTZ, "when it last renewed its lease"),
        },
        monitors=True,
    ),
    "oracle": OwnRelation(
        15990,
        "the environment's timestamps, in one row",
        {
            "environment": OwnColumn(TEXT, "id of the environment"),
            "csn": OwnColumn(INT8, f"the newest moment: {_CSN}"),
            "time": OwnColumn(TIMESTAMPTZ, "the same as a time"),
            "asks_store": OwnColumn(BOOL, "whether reads ask the store for their moment, since several servers commit"),
            "first_unapplied": OwnColumn(INT8, "the earliest commit that a shard has not taken over yet"),
            "shards": OwnColumn(INT4, "shards that there are"),
            "servers": OwnColumn(INT4, "processes that have the environment open"),
            "staged": OwnColumn(INT4, "transactions whose files are still being written"),
            "prepared": OwnColumn(INT4, "prepared transactions"),
            "unapplied": OwnColumn(INT4, "writes that shards have not taken over yet"),
        },
        monitors=True,
    ),
    "engines": OwnRelation(
        15991,
        "engines that run queries",
        {
            "engine": OwnColumn(TEXT, "local or spark"),
            "is_started": OwnColumn(BOOL, "whether it is started on this server"),
            "statements": OwnColumn(INT4, "statements that run on it, on any server"),
        },
        monitors=True,
    ),
    "statement_statistics": OwnRelation(
        15992,
        "what was counted of statements, for pg_stat_statements",
        {
            "userid": OwnColumn(OID, "role that ran it"),
            "dbid": OwnColumn(OID, "database"),
            "toplevel": OwnColumn(BOOL, "whether a client sent it"),
            "queryid": OwnColumn(INT8, "number made of its text"),
            "query": OwnColumn(TEXT, "its text, with parameters for constants"),
            "calls": OwnColumn(INT8, "how often it ran"),
            "total_exec_time": OwnColumn(FLOAT8, "milliseconds that it took together"),
            "min_exec_time": OwnColumn(FLOAT8, "the fewest"),
            "max_exec_time": OwnColumn(FLOAT8, "the most"),
            "mean_exec_time": OwnColumn(FLOAT8, "the mean"),
            "stddev_exec_time": OwnColumn(FLOAT8, "the standard deviation"),
            "rows": OwnColumn(INT8, "rows that it gave or changed"),
        },
    ),
    "statement_statistics_info": OwnRelation(
        15993,
        "what was counted of the counting, for pg_stat_statements_info",
        {
            "dealloc": OwnColumn(INT8, "how often statements had to be forgotten"),
            "stats_reset": OwnColumn(TIMESTAMPTZ, "when counting began"),
        },
    ),
    "controllers": OwnRelation(
        15995,
        "what does the work that follows from the catalog, on all servers of the environment",
        {
            "server": OwnColumn(TEXT, "server process, as in tidegate.servers"),
            "worker": OwnColumn(INT4, "number of the worker, of servers that have several"),
            "controller": OwnColumn(
                TEXT,
                "views (refreshes materialized views), publishing (of tables as Iceberg tables), statistics (of"
                " statements) or storage (upkeep)",
            ),
            "catalog_csn": OwnColumn(INT8, "the newest change of the catalog that it has followed"),
            "catalog_time": OwnColumn(TIMESTAMPTZ, "when that was made"),
            "is_running": OwnColumn(BOOL, "whether it works; otherwise it waits to begin again after a failure"),
            "owned": OwnColumn(INT4, "views, databases or shards that are this process's to work on at present"),
            "restarts": OwnColumn(INT8, "how often it has begun again from the catalog after an error"),
            "failures": OwnColumn(INT8, "pieces of its work that failed, and were or are tried again"),
            "error": OwnColumn(TEXT, "latest error"),
            "failed_at": OwnColumn(TIMESTAMPTZ, "when that was"),
        },
        monitors=True,
    ),
    "columns": OwnRelation(
        15994,
        "columns of the relations of this schema, and what they tell",
        {
            "relation": OwnColumn(NAME, "name of the relation"),
            "position": OwnColumn(INT4, "number of the column; 0 for the relation itself"),
            "name": OwnColumn(NAME, "name of the column"),
            "type": OwnColumn(TEXT, "its type"),
            "comment": OwnColumn(TEXT, "what it tells"),
        },
    ),
}
"""By name."""
