"""Locks, maintenance, notifications, privileges, databases, roles, DO and CALL."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from planner.common_errors import redundant_options
from planner.errors import FeatureNotSupported, InvalidGrantOperation, InvalidParameterValue, SqlSyntaxError
from planner.statements import records as st
from planner.syntax.libpg_query import pb
from planner.syntax.names import name_from_list, oid_text, qualified_name, role_name, strings
from planner.syntax.options import option_flag, option_or_true, option_text
from planner.syntax.parse import Parsed, Tree
from planner.utility.routines import routine_name

_LOCK_MODES = (
    "", "AccessShareLock", "RowShareLock", "RowExclusiveLock", "ShareUpdateExclusiveLock", "ShareLock",
    "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock",
)  # fmt: skip


def _lock(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    tables = tuple(qualified_name(node.range_var, parsed) for node in tree.relations)
    return st.Lock(tables=tables, mode=_LOCK_MODES[tree.mode], nowait=tree.nowait)


def _vacuum(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    allowed = _VACUUM_OPTIONS if tree.is_vacuumcmd else _ANALYZE_OPTIONS
    options: dict[str, bool] = {}
    parallel = 0
    for node in tree.options:
        option = node.def_elem
        name = option.defname.lower()
        if name not in allowed:
            command = "VACUUM" if tree.is_vacuumcmd else "ANALYZE"
            raise SqlSyntaxError(
                f'unrecognized {command} option "{option.defname}"', position=parsed.position(option.location)
            )
        if name == "parallel":
            parallel = _parallel_workers(parsed, option)
        elif name != "index_cleanup" or option_or_true(option).lower() != "auto":
            options[name] = option_flag(option)
    if options.get("full") and parallel > 0:
        raise FeatureNotSupported("VACUUM FULL cannot be performed in parallel")
    columns = tuple(strings(node.vacuum_relation.va_cols) for node in tree.rels)
    if tree.is_vacuumcmd and any(columns) and not options.get("analyze"):
        raise FeatureNotSupported("ANALYZE option must be specified when a column list is provided")
    if options.get("full") and options.get("disable_page_skipping"):
        raise FeatureNotSupported("VACUUM option DISABLE_PAGE_SKIPPING cannot be used with FULL")
    if options.get("full") and not options.get("process_toast", True):
        raise FeatureNotSupported("PROCESS_TOAST required with VACUUM FULL")
    return st.Vacuum(
        tables=tuple(qualified_name(node.vacuum_relation.relation, parsed) for node in tree.rels),
        columns=columns,
        analyze_only=not tree.is_vacuumcmd,
        options=tuple(name for name, is_on in options.items() if is_on),
    )


def _parallel_workers(parsed: Parsed, option: Tree) -> int:
    """The workers that VACUUM is to have, of which it has no use. Raises 42601."""
    position = parsed.position(option.location)
    text = option_text(option)
    if text is None:
        raise SqlSyntaxError(
            f"parallel option requires a value between 0 and {_MAX_PARALLEL_WORKERS}", position=position
        )
    try:
        workers = int(text)
    except ValueError:
        raise SqlSyntaxError("parallel requires an integer value") from None
    if not 0 <= workers <= _MAX_PARALLEL_WORKERS:
        raise SqlSyntaxError(
            f"parallel workers for vacuum must be between 0 and {_MAX_PARALLEL_WORKERS}", position=position
        )
    return workers


_MAX_PARALLEL_WORKERS = 1024
_ANALYZE_OPTIONS = {"verbose", "skip_locked"}
_VACUUM_OPTIONS = _ANALYZE_OPTIONS | {
    "analyze", "freeze", "full", "disable_page_skipping", "index_cleanup", "process_toast", "truncate", "parallel",
}  # fmt: skip


def _cluster(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    table = qualified_name(tree.relation, parsed) if tree.HasField("relation") else None
    for node in tree.params:
        if node.def_elem.defname != "verbose":
            raise SqlSyntaxError(
                f'unrecognized CLUSTER option "{node.def_elem.defname}"',
                position=parsed.position(node.def_elem.location),
            )
    return st.Cluster(table=table, index=tree.indexname or None)


_REINDEX = {
    pb.REINDEX_OBJECT_INDEX: "index",
    pb.REINDEX_OBJECT_TABLE: "table",
    pb.REINDEX_OBJECT_SCHEMA: "schema",
    pb.REINDEX_OBJECT_SYSTEM: "system",
    pb.REINDEX_OBJECT_DATABASE: "database",
}


def _reindex(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.Reindex(
        kind=_REINDEX[tree.kind],
        name=qualified_name(tree.relation, parsed) if tree.HasField("relation") else None,
        target=tree.name or None,
        concurrently=_flag(tree, "concurrently", parsed),
        verbose=_flag(tree, "verbose", parsed),
        tablespace=next(
            (option_text(node.def_elem) for node in tree.params if node.def_elem.defname == "tablespace"), None
        ),
    )


def _flag(tree: Tree, name: str, parsed: Parsed) -> bool:
    """An option of REINDEX that is on or off. 42601 for options that there are not."""
    found = False
    for node in tree.params:
        element = node.def_elem
        if element.defname == name:
            found = option_flag(element)
        elif element.defname not in ("concurrently", "verbose", "tablespace"):
            raise SqlSyntaxError(
                f'unrecognized REINDEX option "{element.defname}"', position=parsed.position(element.location)
            )
    return found


_GRANT_OBJECTS = {
    pb.OBJECT_TABLE: "table",
    pb.OBJECT_SEQUENCE: "sequence",
    pb.OBJECT_DATABASE: "database",
    pb.OBJECT_SCHEMA: "schema",
    pb.OBJECT_FUNCTION: "function",
    pb.OBJECT_PROCEDURE: "procedure",
    pb.OBJECT_ROUTINE: "routine",
    pb.OBJECT_TYPE: "type",
    pb.OBJECT_DOMAIN: "domain",
    pb.OBJECT_LANGUAGE: "language",
    pb.OBJECT_TABLESPACE: "tablespace",
    pb.OBJECT_FDW: "foreign data wrapper",
    pb.OBJECT_FOREIGN_SERVER: "foreign server",
    pb.OBJECT_LARGEOBJECT: "large object",
    pb.OBJECT_PARAMETER_ACL: "parameter",
}


def _grant(parsed: Parsed, tree: Tree) -> st.Grant:
    kind = _GRANT_OBJECTS.get(tree.objtype, "object")
    objects: list[st.QualifiedName] = []
    routines: list[st.RoutineName] = []
    for node in tree.objects:
        match node.WhichOneof("node"):
            case "range_var":
                objects.append(qualified_name(node.range_var, parsed))
            case "string":
                objects.append(st.QualifiedName(name=node.string.sval))
            case "object_with_args":
                routines.append(routine_name(node.object_with_args, kind, parsed))
            case "list":
                objects.append(name_from_list(node.list.items))
            case _:
                objects.append(st.QualifiedName(name=oid_text(node)))
    privileges = [
        st.Privilege(
            name=node.access_priv.priv_name or None,
            columns=tuple(column.string.sval for column in node.access_priv.cols),
        )
        for node in tree.privileges
    ]
    return st.Grant(
        grant=tree.is_grant,
        privileges=tuple(privileges),
        kind=kind,
        objects=tuple(objects),
        routines=tuple(routines),
        all_in_schema=tree.targtype == pb.ACL_TARGET_ALL_IN_SCHEMA,
        grantees=tuple(
            None if node.role_spec.roletype == pb.ROLESPEC_PUBLIC else role_name(node.role_spec)
            for node in tree.grantees
        ),
        grant_option=tree.grant_option,
        grantor=role_name(tree.grantor) if tree.HasField("grantor") else None,
        cascade=tree.behavior == pb.DROP_CASCADE,
    )


def _alter_default_privileges(parsed: Parsed, tree: Tree) -> st.AlterDefaultPrivileges:
    roles: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    given: set[str] = set()
    for option in tree.options:
        element = option.def_elem
        if element.defname in given:
            raise redundant_options(parsed.position(element.location))
        given.add(element.defname)
        if element.defname == "roles":
            roles = tuple(role_name(node.role_spec) for node in element.arg.list.items)
        else:
            schemas = tuple(strings(element.arg.list.items))
    return st.AlterDefaultPrivileges(roles=roles, schemas=schemas, action=_grant(parsed, tree.action))


def _grant_role(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    if any(node.access_priv.cols for node in tree.granted_roles):
        raise InvalidGrantOperation("column names cannot be included in GRANT/REVOKE ROLE")
    return st.GrantRole(
        grant=tree.is_grant,
        roles=tuple(node.access_priv.priv_name for node in tree.granted_roles),
        grantees=tuple(role_name(node.role_spec) for node in tree.grantee_roles),
        grantor=role_name(tree.grantor) if tree.HasField("grantor") else None,
        admin_option=_admin_option(parsed, tree),
    )


def _admin_option(parsed: Parsed, tree: Tree) -> bool:
    """Whether GRANT has WITH ADMIN OPTION, or REVOKE ADMIN OPTION FOR. 42601 for options of later versions."""
    for node in tree.opt:
        element = node.def_elem
        if element.defname != "admin":
            raise SqlSyntaxError(
                f'syntax error at or near "{element.defname.upper()}"', position=parsed.position(element.location)
            )
    return any(bool(node.def_elem.arg.boolean.boolval) == tree.is_grant for node in tree.opt)


def _create_database(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.CreateDatabase(name=tree.dbname, options=_database_options(tree))


def _alter_database(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.AlterDatabase(name=tree.dbname, options=_database_options(tree))


def _refresh_collation(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.RefreshCollation(name=tree.dbname)


def _database_options(tree: Tree) -> tuple[tuple[str, str | None], ...]:
    return tuple((node.def_elem.defname, option_text(node.def_elem)) for node in tree.options)


def _create_extension(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    options = _extension_options(parsed, tree)
    return st.CreateExtension(
        name=tree.extname,
        if_not_exists=tree.if_not_exists,
        schema=options.get("schema"),
        version=options.get("new_version"),
    )


def _extension_options(parsed: Parsed, tree: Tree) -> dict[str, str]:
    """SCHEMA and VERSION by their names in the parse tree. 42601 for one that is given twice."""
    given: dict[str, str] = {}
    for option in tree.options:
        element = option.def_elem
        if element.defname in given:
            raise SqlSyntaxError("conflicting or redundant options", position=parsed.position(element.location))
        if element.arg.WhichOneof("node") == "string":
            given[element.defname] = element.arg.string.sval
    return given


def _drop_database(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    force = any(node.def_elem.defname == "force" for node in tree.options)
    return st.DropDatabase(name=tree.dbname, if_exists=tree.missing_ok, force=force)


_ROLE_FLAGS = {
    "superuser": "superuser",
    "canlogin": "login",
    "createdb": "create_db",
    "createrole": "create_role",
    "inherit": "inherit",
    "isreplication": "replication",
    "bypassrls": "bypass_rls",
}
_ROLE_LISTS = {"addroleto": "in_roles", "rolemembers": "members", "adminmembers": "admins"}


def _role_options(options: Any, parsed: Parsed) -> st.RoleOptions:
    given: dict[str, Any] = {}
    for node in options:
        element = node.def_elem
        name = element.defname
        field = _ROLE_FLAGS.get(name) or _ROLE_LISTS.get(name) or name
        if field in given:
            raise redundant_options(parsed.position(element.location))
        if name in _ROLE_FLAGS:
            given[field] = bool(element.arg.boolean.boolval)
        elif name in _ROLE_LISTS:
            given[field] = tuple(role_name(item.role_spec) for item in element.arg.list.items)
        elif name == "connectionlimit":
            given["connection_limit"] = int(option_text(element) or "-1")
        elif name == "password":
            text = option_text(element)
            given["password"] = text
            given["password_null"] = text is None
        elif name == "validUntil":
            given["valid_until"] = option_text(element)
        elif name == "sysid":
            given["has_sysid"] = True
        else:
            raise FeatureNotSupported(f'role option "{name}" is not supported')
    return st.RoleOptions(**given)


def _create_role(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kinds = {pb.ROLESTMT_ROLE: "role", pb.ROLESTMT_USER: "user", pb.ROLESTMT_GROUP: "group"}
    kind = kinds[tree.stmt_type]
    options = _role_options(tree.options, parsed)
    if kind == "user" and options.login is None:
        options = replace(options, login=True)
    return st.CreateRole(name=tree.role, kind=kind, options=options)  # type: ignore[arg-type]


def _alter_role(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    name, options = role_name(tree.role), _role_options(tree.options, parsed)
    if tree.options and tree.options[0].def_elem.defname == "rolemembers":
        return st.AlterGroup(name=name, members=options.members, add=tree.action > 0)
    return st.AlterRole(name=name, options=options)


def _drop_role(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    if any(node.role_spec.roletype != pb.ROLESPEC_CSTRING for node in tree.roles):
        raise InvalidParameterValue("cannot use special role specifier in DROP ROLE")
    return st.DropRole(names=tuple(role_name(node.role_spec) for node in tree.roles), if_exists=tree.missing_ok)


def _reassign_owned(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    roles = tuple(role_name(node.role_spec) for node in tree.roles)
    return st.ReassignOwned(roles=roles, new_owner=role_name(tree.newrole))


def _drop_owned(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    roles = tuple(role_name(node.role_spec) for node in tree.roles)
    return st.DropOwned(roles=roles, cascade=tree.behavior == pb.DROP_CASCADE)


def _do(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    given = {node.def_elem.defname: option_text(node.def_elem) or "" for node in tree.args}
    return st.Do(language=given.get("language", "plpgsql"), body=given.get("as", ""))


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "listen_stmt": lambda parsed, tree: st.Listen(channel=tree.conditionname),
    "unlisten_stmt": lambda parsed, tree: st.Unlisten(channel=tree.conditionname or None),
    "notify_stmt": lambda parsed, tree: st.Notify(channel=tree.conditionname, payload=tree.payload),
    "lock_stmt": _lock,
    "vacuum_stmt": _vacuum,
    "check_point_stmt": lambda parsed, tree: st.Checkpoint(),
    "cluster_stmt": _cluster,
    "reindex_stmt": _reindex,
    "grant_stmt": _grant,
    "grant_role_stmt": _grant_role,
    "alter_default_privileges_stmt": _alter_default_privileges,
    "createdb_stmt": _create_database,
    "alter_database_stmt": _alter_database,
    "alter_database_refresh_coll_stmt": _refresh_collation,
    "create_extension_stmt": _create_extension,
    "alter_extension_stmt": lambda parsed, tree: st.AlterExtension(
        name=tree.extname, version=_extension_options(parsed, tree).get("new_version")
    ),
    "dropdb_stmt": _drop_database,
    "create_role_stmt": _create_role,
    "alter_role_stmt": _alter_role,
    "drop_role_stmt": _drop_role,
    "reassign_owned_stmt": _reassign_owned,
    "drop_owned_stmt": _drop_owned,
    "do_stmt": _do,
}
"""By kind of parse tree: what makes its statement."""
