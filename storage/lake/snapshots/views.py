"""Views of Iceberg catalogs, version 1: https://iceberg.apache.org/view-spec/.

A view has versions, of which one is the current; a version has a schema, and the query's text in one dialect or in
several.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct, field

from storage.lake.tables import plain_type
from storage.lake.troubles import FileTrouble


class ViewText(Struct, frozen=True, kw_only=True):
    """The query of a view in one dialect. `type` is "sql"; there may be others one day."""

    type: str
    sql: str = ""
    dialect: str = ""


class _Version(Struct, frozen=True, kw_only=True, rename="kebab"):
    version_id: int
    schema_id: int
    representations: tuple[ViewText, ...]
    default_namespace: tuple[str, ...]
    default_catalog: str | None = None


class _Metadata(Struct, frozen=True, kw_only=True, rename="kebab"):
    format_version: int
    current_version_id: int
    versions: tuple[_Version, ...]
    schemas: tuple[Mapping[str, Any], ...]


class CatalogView(Struct, frozen=True, kw_only=True):
    """The current version of a view. Names in its texts without a namespace are of `namespace`, and those without a
    catalog of `catalog`: None is the one that the view is in."""

    columns: tuple[tuple[str, pa.DataType], ...]
    texts: tuple[ViewText, ...]
    namespace: tuple[str, ...]
    catalog: str | None = field(default=None)


def catalog_view(metadata: Any, name: str) -> CatalogView:
    """The view called `name` in messages, of its metadata as JSON has it. Raises FileTrouble (malformed,
    unsupported)."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.schema import Schema

    try:
        read = msgspec.convert(metadata, _Metadata)
        if read.format_version != 1:
            raise FileTrouble("unsupported", f'view "{name}" is of version {read.format_version} of the format')
        version = next(each for each in read.versions if each.version_id == read.current_version_id)
        given = next(each for each in read.schemas if each.get("schema-id", 0) == version.schema_id)
        schema = schema_to_pyarrow(Schema.model_validate(given), include_field_ids=False)
    except FileTrouble:
        raise
    except StopIteration:
        raise FileTrouble("malformed", f'the metadata of view "{name}" lacks its current version') from None
    except Exception as error:
        what = " ".join(str(error).split()).rstrip(".")
        raise FileTrouble("malformed", f'could not read the metadata of view "{name}": {what}') from error
    return CatalogView(
        columns=tuple((column.name, plain_type(column.type)) for column in schema),
        texts=tuple(each for each in version.representations if each.type == "sql"),
        namespace=version.default_namespace,
        catalog=version.default_catalog,
    )
