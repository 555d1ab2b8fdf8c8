"""CREATE, ALTER, RENAME and DROP POLICY; ENABLE, DISABLE, FORCE and NO FORCE ROW LEVEL SECURITY (PostgreSQL 15's
policy.c)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, named_role, new_oid
from adapter.definitions.common.owners import require_owner
from adapter.definitions.policies.view_options import view_options, without_options
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import look_up, missing
from adapter.execution.statement import Running
from adapter.publishing.published_views import check_view_publishable
from adapter.results import Notice
from planner.definitions.row_expressions import policy_expression
from planner.errors import DuplicateObject, SqlSyntaxError, UndefinedObject, WrongObjectType
from planner.statements import records as st
from planner.syntax.parse import Parsed
from planner.utility.queries import checked_check_option
from storage.catalog.access import PUBLIC, Policy, RowSecurity
from storage.catalog.model import Relation

_COMMANDS = {"all": "*", "select": "r", "insert": "a", "update": "w", "delete": "d"}


async def create_policy(running: Running, statement: st.CreatePolicy) -> None:
    """CREATE POLICY. Raises 42601, 42P01, 42501, 42809, 42710, 42704 and what binding its expressions raises."""
    command = _COMMANDS[statement.command]
    if command in "rd" and statement.check is not None:
        raise SqlSyntaxError("WITH CHECK cannot be applied to SELECT or DELETE")
    if command == "a" and statement.using is not None:
        raise SqlSyntaxError("only WITH CHECK expression allowed for INSERT")
    roles = _roles(running, statement.roles)
    table = policy_table(running, statement.table)
    policy = Policy(
        oid=new_oid(running, table.oid),
        name=statement.name,
        relation=table.oid,
        command=command,
        permissive=statement.permissive,
        roles=roles,
        database=running.session.database_oid,
    )
    policy = _with_conditions(running, table, policy, statement.using, statement.check)
    if find_policy(running, table, statement.name) is not None:
        raise DuplicateObject(f'policy "{statement.name}" for table "{table.name}" already exists')
    change(running, added=[policy])


async def alter_policy(running: Running, statement: st.AlterPolicy) -> None:
    """ALTER POLICY ... TO, USING, WITH CHECK. Raises what `create_policy` raises."""
    roles = _roles(running, statement.roles) if statement.roles else ()
    table = policy_table(running, statement.table)
    if statement.using is not None:
        policy_expression(table, statement.using, running.session.bind_context(own_catalog(running)))
    if statement.check is not None:
        policy_expression(table, statement.check, running.session.bind_context(own_catalog(running)))
    policy = require_policy(running, table, statement.name)
    if policy.command in "rd" and statement.check is not None:
        raise SqlSyntaxError("only USING expression allowed for SELECT, DELETE")
    if policy.command == "a" and statement.using is not None:
        raise SqlSyntaxError("only WITH CHECK expression allowed for INSERT")
    changed = replace(policy, roles=roles or policy.roles)
    changed = _with_conditions(running, table, changed, statement.using, statement.check)
    if changed != policy:
        change(running, removed=[policy], added=[changed])


def _with_conditions(
    running: Running, table: Relation, policy: Policy, using: Parsed | None, check: Parsed | None
) -> Policy:
    """`policy` with the conditions that are given."""
    context = running.session.bind_context(own_catalog(running))
    columns, depends_on = set(policy.columns), set(policy.depends_on)
    if using is not None and check is not None:
        columns, depends_on = set(), set()
    for field, written in (("using", using), ("check", check)):
        if written is None:
            continue
        expression = policy_expression(table, written, context)
        columns.update(expression.columns)
        depends_on.update(expression.depends_on)
        policy = replace(policy, **{field: expression.text})
    found = [record for oid in sorted(depends_on) if (record := context.catalog.get(oid)) is not None]
    running.transaction.rely_on([table, *found])
    return replace(policy, columns=tuple(sorted(columns)), depends_on=tuple(record.oid for record in found))


def rename_policy(running: Running, table_name: st.QualifiedName, name: str, new_name: str) -> None:
    """ALTER POLICY ... RENAME TO."""
    table = policy_table(running, table_name)
    if find_policy(running, table, new_name) is not None:
        raise DuplicateObject(f'policy "{new_name}" for table "{table.name}" already exists')
    policy = require_policy(running, table, name)
    change(running, removed=[policy], added=[replace(policy, name=new_name)])


def dropped_policies(running: Running, statement: st.Drop) -> list[Policy]:
    """The policies that DROP POLICY names; a notice for what IF EXISTS leaves out."""
    found = []
    for name in statement.names:
        # The last part is the policy's name; what comes before it the table's.
        table_name = st.QualifiedName(name=name.schema or "", schema=name.database)
        record = look_up(running, own_catalog(running), table_name)
        if record is None and statement.if_exists:
            _notify(running, f'relation "{table_name.name}" does not exist, skipping')
            continue
        table = policy_table(running, table_name, "relation")
        policy = find_policy(running, table, name.name)
        if policy is None and statement.if_exists:
            _notify(running, f'policy "{name.name}" for relation "{table.name}" does not exist, skipping')
            continue
        found.append(require_policy(running, table, name.name))
    return found


def set_row_security(running: Running, table: Relation, action: st.SetRowSecurity) -> None:
    """ALTER TABLE ... ROW LEVEL SECURITY."""
    catalog = own_catalog(running)
    records = [r for r in catalog.all() if isinstance(r, RowSecurity) and r.relation == table.oid]
    known = records[0] if records else None
    enabled, forced = (False, False) if known is None else (known.enabled, known.forced)
    enabled = enabled if action.enabled is None else action.enabled
    forced = forced if action.forced is None else action.forced
    if known is not None and (known.enabled, known.forced) == (enabled, forced):
        return
    running.transaction.rely_on([table])
    added = RowSecurity(
        oid=new_oid(running, table.oid),
        relation=table.oid,
        enabled=enabled,
        forced=forced,
        database=running.session.database_oid,
    )
    change(running, removed=records, added=[added] if enabled or forced else [])


def policy_table(running: Running, name: st.QualifiedName, kind: str | None = None) -> Relation:
    """The table that a policy is, or is to be, on; `kind`: see `require_owner`. Raises 42P01, 42501, 42809."""
    catalog = own_catalog(running)
    record = look_up(running, catalog, name)
    if record is None:
        raise missing(catalog, name)
    require_owner(running, record, kind)
    if not isinstance(record, Relation) or record.kind != "r":
        raise WrongObjectType(f'"{record.name}" is not a table')
    return record


def find_policy(running: Running, table: Relation, name: str) -> Policy | None:
    """The table's policy of this name, or None."""
    policies = own_catalog(running).policies.of(table.oid).policies
    return next((policy for policy in policies if policy.name == name), None)


def require_policy(running: Running, table: Relation, name: str) -> Policy:
    """The table's policy of this name. 42704."""
    policy = find_policy(running, table, name)
    if policy is None:
        raise UndefinedObject(f'policy "{name}" for table "{table.name}" does not exist')
    return policy


def without_roles(policies: Iterable[Policy], roles: Sequence[int]) -> list[tuple[Policy, Policy | None]]:
    """The policies that are for some of the roles, beside what is left of them without these: None when nobody is."""
    changed: list[tuple[Policy, Policy | None]] = []
    for policy in policies:
        rest = tuple(role for role in policy.roles if role not in roles)
        if rest != policy.roles:
            changed.append((policy, replace(policy, roles=rest) if rest else None))
    return changed


def _roles(running: Running, names: Sequence[str | None]) -> tuple[int, ...]:
    if None in names:
        if len(names) > 1:
            running.session.notice(
                Notice(
                    severity="WARNING",
                    sqlstate="22023",
                    message="ignoring specified roles other than PUBLIC",
                    hint="All roles are members of the PUBLIC role.",
                )
            )
        return (PUBLIC,)
    return tuple(dict.fromkeys(named_role(running, name).oid for name in names if name is not None))


def _notify(running: Running, message: str) -> None:
    running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))


def set_view_options(running: Running, view: Relation, action: st.SetStorageOptions) -> None:
    """ALTER VIEW ... SET and RESET of options."""
    given = [(name, value) for name, value in action.options if name != "check_option"]
    names = [name for name, _ in action.options]
    options = without_options(names, view.options) if action.reset else view_options(given, view.options)
    check_option = view.check_option
    if action.reset and "check_option" in names:
        check_option = None
    elif "check_option" in names:
        check_option = checked_check_option(dict(action.options)["check_option"])
    changed = replace(view, options=options, check_option=check_option)
    if changed != view:
        check_view_publishable(own_catalog(running), changed)
        change(running, removed=[view], added=[changed])
