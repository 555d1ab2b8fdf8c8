"""CLUSTER, ALTER TABLE ... CLUSTER ON, SET WITHOUT CLUSTER and REPLICA IDENTITY: what the catalogs say of a table's
indexes.

Rows are not put in an index's order, and nothing is published by its keys: dumps and tools find here what was declared.
"""

from __future__ import annotations

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change
from adapter.definitions.common.in_use import refuse_in_use
from adapter.definitions.common.owners import require_owner
from adapter.execution.guards import own_catalog, prevent_in_block
from adapter.execution.relation_names import look_up, missing
from adapter.execution.statement import Running
from planner.errors import FeatureNotSupported, UndefinedObject, WrongObjectType
from planner.statements import records as st
from planner.types.table_indexes import CLUSTERABLE, index_of_constraint
from storage.catalog.model import CatalogSnapshot, Constraint, Index, Relation

REPLICA_INDEX = "i"
"""pg_class.relreplident of REPLICA IDENTITY USING INDEX."""


async def cluster(running: Running, statement: st.Cluster) -> None:
    """CLUSTER: the storage keeps tables in an order of its own, so that only the index is marked. Raises 42P01, 42809,
    42501, 42704, 0A000, 55006; 25001 for that of all tables."""
    if statement.table is None:
        prevent_in_block(running, "CLUSTER")
        return
    catalog = own_catalog(running)
    record = look_up(running, catalog, statement.table)
    if record is None:
        raise missing(catalog, statement.table)
    if not isinstance(record, Relation) or record.kind not in ("r", "m"):
        raise WrongObjectType(f'"{record.name}" is not a table or materialized view')
    require_owner(running, record)
    refuse_in_use(running, record, "CLUSTER")
    if statement.index is None:
        if not record.marks.clustered:
            raise UndefinedObject(f'there is no previously clustered index for table "{record.name}"')
        return
    other = catalog.get(catalog.relation_names.get((record.schema, statement.index), 0))
    if other is not None and not (isinstance(other, Index) and other.relation == record.oid):
        of_table = f' for table "{record.name}"' if isinstance(other, Index) else ""
        raise WrongObjectType(f'"{statement.index}" is not an index{of_table}')
    set_clustered(running, record, st.ClusterOn(index=statement.index))


def set_clustered(running: Running, relation: Relation, action: st.ClusterOn) -> None:
    """CLUSTER ON an index, or on none. Raises 42704 and 0A000."""
    oid = 0
    if action.index is not None:
        index, _ = _index(own_catalog(running), relation, action.index)
        if index.method not in CLUSTERABLE:
            raise FeatureNotSupported(
                f'cannot cluster on index "{index.name}" because access method does not support clustering'
            )
        if index.predicate is not None:
            raise FeatureNotSupported(f'cannot cluster on partial index "{index.name}"')
        oid = index.oid
    marks = replace(relation.marks, clustered=oid)
    change(running, removed=[relation], added=[replace(relation, marks=marks)])


def set_replica_identity(running: Running, relation: Relation, action: st.SetReplicaIdentity) -> None:
    """REPLICA IDENTITY. Raises 42704, and 42809 or 0A000 for an index that does not identify every row."""
    oid = 0
    if action.kind == REPLICA_INDEX:
        index, constraint = _index(own_catalog(running), relation, action.index)
        _check_identifies(relation, index, constraint)
        oid = index.oid
    marks = replace(relation.marks, identity=action.kind, identity_index=oid)
    change(running, removed=[relation], added=[replace(relation, marks=marks)])


def _index(catalog: CatalogSnapshot, relation: Relation, name: str) -> tuple[Index, Constraint | None]:
    """The index of `relation` called `name`, and the constraint that it is of."""
    for constraint in catalog.constraints(relation.oid):
        if constraint.kind in ("p", "u") and constraint.name == name:
            return index_of_constraint(relation, constraint), constraint
    for index in catalog.indexes(relation.oid):
        if index.name == name:
            return index, None
    raise UndefinedObject(f'index "{name}" for table "{relation.name}" does not exist')


def _check_identifies(relation: Relation, index: Index, constraint: Constraint | None) -> None:
    if not index.unique:
        raise WrongObjectType(f'cannot use non-unique index "{index.name}" as replica identity')
    if constraint is not None and constraint.deferrable:
        raise FeatureNotSupported(f'cannot use non-immediate index "{index.name}" as replica identity')
    if index.expressions:
        raise FeatureNotSupported(f'cannot use expression index "{index.name}" as replica identity')
    if index.predicate is not None:
        raise FeatureNotSupported(f'cannot use partial index "{index.name}" as replica identity')
    for column in relation.columns:
        if column.attnum in index.columns and not column.not_null:
            raise WrongObjectType(
                f'index "{index.name}" cannot be used as replica identity because column "{column.name}" is nullable'
            )
