"""Row-level security: pg_policy and pg_policies."""

from __future__ import annotations

from collections.abc import Iterable

from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.objects import CatalogObjects
from storage.catalog.access import PUBLIC, Policy
from storage.catalog.model import Relation

_COMMANDS = {"*": "ALL", "r": "SELECT", "a": "INSERT", "w": "UPDATE", "d": "DELETE"}


def _by_age(policies: Iterable[Policy]) -> list[Policy]:
    """Older ones first: \\dp shows them as the catalog gives them."""
    return sorted(policies, key=lambda policy: policy.oid)


def pg_policy(objects: CatalogObjects) -> Content:
    """The policies of tables."""
    return Content(
        rows=[
            {
                "oid": policy.oid,
                "polname": policy.name,
                "polrelid": policy.relation,
                "polcmd": policy.command,
                "polpermissive": policy.permissive,
                "polroles": list(policy.roles),
                "polqual": policy.using,
                "polwithcheck": policy.check,
            }
            for policy in _by_age(policy for t in objects.snapshot.policies.by_table.values() for policy in t.policies)
        ]
    )


def pg_policies(objects: CatalogObjects) -> Content:
    """The policies of tables, their conditions as the catalog keeps them (`shown_names` shows them)."""
    rows = []
    for oid, table in objects.snapshot.policies.by_table.items():
        relation = objects.snapshot.get(oid)
        if not isinstance(relation, Relation):
            continue
        for policy in _by_age(table.policies):
            names = ["public" if role == PUBLIC else objects.role_names.get(role) for role in policy.roles]
            rows.append(
                {
                    "schemaname": objects.schema_name_by_oid.get(relation.schema),
                    "tablename": relation.name,
                    "policyname": policy.name,
                    "permissive": "PERMISSIVE" if policy.permissive else "RESTRICTIVE",
                    "roles": sorted(name for name in names if name is not None),
                    "cmd": _COMMANDS[policy.command],
                    "qual": policy.using,
                    "with_check": policy.check,
                }
            )
    return Content(rows=rows)
