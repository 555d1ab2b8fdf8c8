"""`tidegate admin`: look into an environment, check it, and take a table out of it.

Reads only, apart from a hold that an export leaves in the table's shard while it runs, from the table that a clone
makes, and from the end of an upgrade; safe beside running servers, of which a clone is one for as long as it runs.
Exit status: 0 when all is well, 1 when it failed or the check found problems.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from adapter.plans.computed.constant_rows import array_of
from frontend.command.configuration import (
    CONFIG_VARIABLE,
    STORE_OPTIONS,
    VARIABLE_PREFIX,
    ConfigurationError,
    load_configuration,
)
from frontend.command.store_names import store_names
from planner.types.type_scope import types_of
from planner.types.types import type_of_column
from planner.types.user_types import held_as
from planner.values.text_values import parse_text
from storage.catalog.model import CatalogRecord, Relation, Schema
from storage.clock import SystemClock, SystemRandomness
from storage.durable.formats import finish_upgrade
from storage.environment.named_stores import StoreNames, open_environment, opened_stores
from storage.errors import AsOfNotReadable, Determinate, InvalidStore, StorageError
from storage.ids import CATALOG_SHARD, ShardId
from storage.lake.places import Places
from storage.offline import admin, fsck
from storage.offline.export import InspectorReader, clone_table, export_shard
from storage.timestamps.csn import Csn


def run(arguments: argparse.Namespace) -> int:
    """Carry out `tidegate admin`; the exit status."""
    try:
        return asyncio.run(_run(arguments))
    except (ConfigurationError, InvalidStore) as error:
        sys.stderr.write(f"tidegate: error: {error}\n")
        return 2
    except (StorageError, OSError) as error:
        sys.stderr.write(f"tidegate: error: {error}\n")
        return 1


def _store_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in ("config", *STORE_OPTIONS)}


def _store_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter here: what is wrong with a server's other ones does not."""
    names = {CONFIG_VARIABLE, *(VARIABLE_PREFIX + name.upper() for name in STORE_OPTIONS)}
    return {name: value for name, value in environment.items() if name in names}


async def _run(arguments: argparse.Namespace) -> int:
    names = store_names(load_configuration(_store_flags(arguments), _store_variables(os.environ)))
    clock = SystemClock()
    if arguments.action == "clone":
        sys.stdout.write(await _clone(names, arguments) + "\n")
        return 0
    async with opened_stores(names, clock) as (blob, consensus):
        inspector = admin.Inspector(blob=blob, consensus=consensus, clock=clock, random=SystemRandomness())
        match arguments.action:
            case "overview":
                tables = _tables(await fsck.Fsck(inspector).catalog())
                text = admin.render(await inspector.overview(), inspector.clock.now_ms(), tables)
            case "fsck":
                report = await fsck.fsck(inspector, deep=not arguments.shallow)
                sys.stdout.write(fsck.render(report) + "\n")
                return 1 if report.problems else 0
            case "finish-upgrade":
                made_with = (await inspector.record()).format
                written = await finish_upgrade(consensus, clock, inspector.at_work, made_with=made_with)
                text = f"formats up to {written} may be written from now on"
            case _:
                text = await _export(inspector, arguments)
        sys.stdout.write(text + "\n")
        return 0


async def _export(inspector: admin.Inspector, arguments: argparse.Namespace) -> str:
    relation = _find(await fsck.Fsck(inspector).catalog(), arguments.table)
    assert relation.shard is not None
    reader = InspectorReader(inspector)
    as_of = await reader.newest() if arguments.as_of is None else Csn(arguments.as_of)
    names = {f"c{column.attnum}": column.name for column in relation.live_columns()}
    rows = await export_shard(
        reader, reader, relation.shard, as_of, Path(arguments.output), names, missing_values(relation)
    )
    return f"{rows} rows of {arguments.table} at {as_of} in {arguments.output}"


async def _clone(names: StoreNames, arguments: argparse.Namespace) -> str:
    async with opened_stores(names, SystemClock()):
        pass  # Nothing is made where there is no environment.
    env = await open_environment(names, process="admin", places=Places((Path("/"),), names.blob_options))
    try:
        records = list(env.catalog.current().all())
        relation = _find(records, arguments.table)
        schema_name, _, table = arguments.new.rpartition(".")
        schemas = _schemas(records, schema_name)
        if not schemas:
            raise Determinate(f'there is no schema "{schema_name}"')
        newest = await env.oracle.read_ts("user")
        as_of = newest if arguments.as_of is None else Csn(arguments.as_of)
        if as_of > newest:
            raise AsOfNotReadable(f"nothing is decided yet at {as_of}: the newest readable CSN is {newest}")
        with types_of(env.catalog.current(), ()):
            missing = missing_values(relation)
        committed = await clone_table(env, relation, as_of, table, schemas.pop(), missing)
        shard = next(iter(committed.shards - {CATALOG_SHARD}))
        rows = (await env.reader.snapshot(shard, committed.ts)).rows
    finally:
        await env.close()
    return f"{rows} rows of {arguments.table} at {as_of} in the new table {arguments.new}"


def missing_values(relation: Relation) -> dict[str, pa.Scalar]:
    """By physical column, the value that rows from before the column was added have."""
    found: dict[str, pa.Scalar] = {}
    for column in relation.live_columns():
        if column.missing is not None:
            type_ = type_of_column(column)
            found[f"c{column.attnum}"] = array_of(type_, [parse_text(column.missing, held_as(type_))])[0]
    return found


def _schemas(records: list[CatalogRecord], name: str) -> set[int]:
    return {record.oid for record in records if isinstance(record, Schema) and record.name == (name or "public")}


def _tables(records: list[CatalogRecord]) -> dict[ShardId, str]:
    """The name of each shard's table, qualified by its schema."""
    schemas = {record.oid: record.name for record in records if isinstance(record, Schema)}
    names = {
        record.shard: f"{schemas.get(record.schema, record.schema)}.{record.name}"
        for record in records
        if isinstance(record, Relation) and record.shard is not None
    }
    return {**names, CATALOG_SHARD: "(catalog)"}


def _find(records: list[CatalogRecord], name: str) -> Relation:
    schema_name, _, table = name.rpartition(".")
    schemas = _schemas(records, schema_name)
    for record in records:
        if (
            isinstance(record, Relation)
            and record.name == table
            and record.schema in schemas
            and record.shard is not None
        ):
            return record
    raise Determinate(f'there is no table "{name}"')
