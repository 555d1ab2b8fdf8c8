"""Extended statistics: pg_statistic_ext."""

from __future__ import annotations

from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.objects import CatalogObjects


def pg_statistic_ext(objects: CatalogObjects) -> Content:
    """Statistics objects; `stxexprs` (several with commas between them) is SQL text."""
    return Content(
        rows=[
            {
                "oid": record.oid,
                "stxrelid": record.relation,
                "stxname": record.name,
                "stxnamespace": record.schema,
                "stxowner": record.owner,
                "stxstattarget": record.target,
                "stxkeys": list(record.columns),
                "stxkind": [*record.kinds, *("e" if record.expressions else "")],
                "stxexprs": ", ".join(record.expressions) or None,
            }
            for record in objects.statistics
        ]
    )
