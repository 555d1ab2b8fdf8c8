"""Field ids in the Parquet files that Spark writes (`storage.shards.field_ids`).

Spark takes a column's id from the metadata of its field. It has no place for the ids of a list's elements, and readers
that go by ids would leave such a column out: a file with lists or structs gets no ids at all, and is read by name.
"""

from __future__ import annotations

from typing import Any

from adapter.engines.spark.runtime import Spark
from storage.shards.field_ids import column_id

_NESTED = ("array<", "struct<", "map<")


def with_column_ids(spark: Spark, frame: Any) -> Any:
    """The Java Dataset `frame` with the ids of its columns, where all can have one."""
    fields = [(str(pair._1()), str(pair._2())) for pair in frame.dtypes()]
    ids = [column_id(name) for name, _ in fields]
    if None in ids or any(type.lower().startswith(_NESTED) for _, type in fields):
        return frame
    metadata = spark.jvm.org.apache.spark.sql.types.Metadata
    columns = [
        # NOTE: "as" is a word of Python.
        getattr(frame.col(name), "as")(name, metadata.fromJson(f'{{"parquet.field.id": {number}}}'))
        for (name, _), number in zip(fields, ids, strict=True)
    ]
    return frame.select(spark.jvm.PythonUtils.toSeq(columns))
