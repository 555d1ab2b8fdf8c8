"""Key runs of a new index for the files that are there: made before its transaction commits, as PostgreSQL builds an
index, so that the first reading after it is as quick as all others.

Files that come meanwhile get theirs in the background (`storage.upkeep.indexing`), and a reading that comes before
makes what it needs. If the transaction does not commit, what was made goes again.
"""

from __future__ import annotations

from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.plans.key_indexes import kept_indexes
from storage.catalog.model import Relation


async def build_indexes(running: Running, relation_oid: int) -> None:
    """Make what the indexes of the table, as the transaction has it, lack for its files. Raises what reading them
    does."""
    catalog, env = own_catalog(running), running.services.env
    relation = catalog.get(relation_oid)
    assert isinstance(relation, Relation)
    if relation.shard is None or running.transaction.is_own_table(relation):
        return
    # Files of the latest commits are known to their shard once they have been copied there.
    await env.applier.apply_all()
    definitions = kept_indexes(catalog, relation, lambda: running.engines.row_values)
    await env.maintenance.indexer.index(relation.shard, definitions)
