"""Tables as they were: what a call of tidegate.as_of or tidegate.changes in FROM names, by the catalog of then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from adapter.access.privileges import Rights
from adapter.access.row_security import is_subject
from adapter.transactions.past.looking_back import past_snapshot
from adapter.transactions.past.moments import moment
from planner.common_errors import missing_relation
from planner.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    InvalidParameterValue,
    ObjectNotInPrerequisiteState,
    SqlError,
    WrongObjectType,
)
from planner.files.past_calls import PastCall
from planner.ir.past_rows import PastMoment, PastTable
from planner.resolution.required import closed_schema
from storage.catalog.model import CatalogSnapshot, Relation
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from storage.environment.environment import Environment


async def found_table(
    env: Environment,
    now: CatalogSnapshot,
    call: PastCall,
    evaluated: Mapping[tuple[int, int], Csn | SqlError],
    context_of: Callable[[CatalogSnapshot], Any],
    *,
    role: int,
    search_path: Sequence[str],
    time_zone: str,
) -> PastTable | SqlError:
    """The table or view that `call` means for a `role`, whose query is bound in the `context_of` a catalog, or what is
    wrong with it. Moments that are not `evaluated`, nor constants, are not known yet: in place of them stands the
    present, with the catalog `now`."""
    moments: list[Csn | None] = []
    try:
        for number, each in enumerate(call.moments):
            csn = evaluated.get((call.location, number))
            if isinstance(csn, SqlError):
                raise csn
            if csn is None and isinstance(each, str):
                csn = moment(each, time_zone, "tidegate.as_of")
            moments.append(csn)
        csn = moments[-1]
        then = now if csn is None else (await past_snapshot(env, csn, now.database)).catalog
        relation = _table_called(then, now, call, role, search_path)
        at = Csn(0) if csn is None else csn
        # Of a view that is kept on commit what is stored lags behind what it shows.
        how = relation.materialized
        is_query = relation.kind == "v" or (how is not None and how.refresh == "on commit")
        within = PastMoment(csn=at, then=then, context=context_of(then)) if is_query else None
        if len(moments) == 1:
            return PastTable(relation=relation, then=then, csn=at, moment=within)
        since = moments[0]
        if since is None or csn is None:
            return PastTable(relation=relation, then=then, csn=Csn(0), since=Csn(0), moment=within)
        if since > csn:
            raise InvalidParameterValue("tidegate.changes must not end before it begins")
        if is_subject(now, relation, role) or is_subject(then, relation, role):
            raise InsufficientPrivilege(
                f'the changes of table "{relation.name}" are hidden by its row-level security',
                hint="Who is not subject to it may read them.",
            )
        return PastTable(relation=relation, then=then, csn=csn, since=since, moment=within)
    except SqlError as error:
        return error


def _table_called(
    then: CatalogSnapshot, now: CatalogSnapshot, call: PastCall, role: int, search_path: Sequence[str]
) -> Relation:
    """Raises 42P01, 42501 for a schema without USAGE, then or today, and for other policies than then, and 42809 and
    0A000 for what keeps no rows."""
    name = call.name
    shown = ".".join(name)
    if len(name) > 2:
        raise FeatureNotSupported(f"cross-database references are not implemented: {shown}")
    closed = Rights(then, role).closed_schemas() | Rights(now, role).closed_schemas()
    if len(name) > 1 and name[0] in closed:
        raise closed_schema(name[0])
    for schema in (name[0],) if len(name) > 1 else search_path:
        record = then.schema(schema)
        if record is None or schema in closed:
            continue
        found = then.get(then.relation_names.get((record.oid, name[-1]), 0))
        if found is None:
            continue
        if not isinstance(found, Relation):
            raise WrongObjectType(f'"{name[-1]}" is not a table')
        if found.kind != "v" and (found.kind not in ("r", "m") or found.shard is None):
            raise WrongObjectType(f'"{found.name}" is not a table')
        if now.policies.of(found.oid) != then.policies.of(found.oid) and (
            is_subject(then, found, role) or is_subject(now, found, role)
        ):
            raise InsufficientPrivilege(f'the row-level security of table "{found.name}" has changed since')
        if found.materialized is not None and not found.materialized.populated:
            raise ObjectNotInPrerequisiteState(f'materialized view "{found.name}" had not been populated')
        return found
    raise missing_relation(shown, None)
