"""The metadata of a published view, version 1 of the format: https://iceberg.apache.org/view-spec/."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID


def view_metadata(
    *,
    uuid: UUID,
    location: str,
    namespace: str,
    version: int,
    timestamp_ms: int,
    columns: Sequence[tuple[str, str]],
    texts: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """The metadata as JSON has it. `columns` are names and types, `texts` dialects and queries. There is one version:
    what the view was before is nowhere kept."""
    fields = [
        {"id": place, "name": name, "required": False, "type": type} for place, (name, type) in enumerate(columns, 1)
    ]
    return {
        "view-uuid": str(uuid),
        "format-version": 1,
        "location": location,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-version-id": version,
        "versions": [
            {
                "version-id": version,
                "timestamp-ms": timestamp_ms,
                "schema-id": 0,
                "summary": {"engine-name": "tidegate"},
                "representations": [{"type": "sql", "sql": sql, "dialect": dialect} for dialect, sql in texts],
                "default-namespace": [namespace],
            }
        ],
        "version-log": [{"timestamp-ms": timestamp_ms, "version-id": version}],
        "properties": {},
    }
