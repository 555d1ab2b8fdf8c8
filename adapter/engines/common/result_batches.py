"""Making an engine's Arrow batches exactly what the contract says: physical types, columns ``c<id>`` in order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from adapter.engines.common.arrow_casts import cast
from adapter.engines.common.engine import RecordBatch
from planner.ir.nodes import Field
from planner.ir.physical import arrow_schema


class ResultShape:
    """The shape of one query's result. A result without columns still has rows: batches of no columns keep their
    length."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.schema = arrow_schema(fields)
        self._fitting: pa.Schema | None = None
        """A schema of the engine's that differs from ours in nothing but names."""

    def conform(self, batch: RecordBatch) -> RecordBatch:
        """`batch` with the physical types; columns that have them already are not copied.

        Raises pyarrow.ArrowInvalid when a value does not fit, which would be a fault of the lowering.
        """
        wanted = self.schema
        if not len(wanted):
            return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
        schema = batch.schema
        if schema.equals(wanted):
            return batch
        if self._fitting is not None and schema.equals(self._fitting):
            return pa.RecordBatch.from_arrays(batch.columns, schema=wanted)
        if schema.types == wanted.types:
            self._fitting = schema
        arrays = []
        for index, field in enumerate(wanted):
            array = batch.column(index)
            arrays.append(array if array.type == field.type else cast(array, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=wanted)
