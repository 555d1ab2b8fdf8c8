"""From parse trees to utility statements that are not about tables: transactions, settings, cursors, COPY, roles, ...

`utility_statement` is the entry for all utility statements; those about tables and other schema objects are in
`planner.utility.definitions`. What has no class here raises 0A000 naming the statement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from planner.errors import FeatureNotSupported, InvalidCursorDefinition, InvalidParameterValue, SqlSyntaxError
from planner.statements import records as st
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.names import qualified_name, role_name, statement_title
from planner.syntax.options import option_flag, option_text
from planner.syntax.parse import Parsed, Tree
from planner.types.type_names import resolve_type_name
from planner.utility.copy_options import copy_options
from planner.utility.definitions import DDL

_LIST_QUOTED = {"search_path", "temp_tablespaces", "session_preload_libraries", "shared_preload_libraries",
                "local_preload_libraries", "unix_socket_directories"}  # fmt: skip


def utility_statement(parsed: Parsed) -> st.UtilityStatement:
    """The utility statement that `parsed` is. Raises 0A000 for those that do not exist here."""
    build = _BUILDERS.get(parsed.kind) or DDL.get(parsed.kind)
    if build is None:
        raise FeatureNotSupported(f"{statement_title(parsed)} is not supported")
    return build(parsed, parsed.tree)


# ---------------------------------------------------------------- transactions


def _transaction(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = tree.kind
    if kind in (pb.TRANS_STMT_BEGIN, pb.TRANS_STMT_START):
        return st.Begin(modes=_modes(tree.options), start=kind == pb.TRANS_STMT_START)
    if kind == pb.TRANS_STMT_COMMIT:
        return st.Commit(chain=tree.chain)
    if kind == pb.TRANS_STMT_ROLLBACK:
        return st.Rollback(chain=tree.chain)
    if kind == pb.TRANS_STMT_SAVEPOINT:
        return st.Savepoint(name=tree.savepoint_name)
    if kind == pb.TRANS_STMT_RELEASE:
        return st.Release(name=tree.savepoint_name)
    if kind == pb.TRANS_STMT_ROLLBACK_TO:
        return st.RollbackTo(name=tree.savepoint_name)
    if kind == pb.TRANS_STMT_PREPARE:
        return st.PreparedTransaction(action="prepare", gid=tree.gid)
    if kind == pb.TRANS_STMT_COMMIT_PREPARED:
        return st.PreparedTransaction(action="commit", gid=tree.gid)
    return st.PreparedTransaction(action="rollback", gid=tree.gid)


def _modes(options: Any) -> st.TransactionModes:
    isolation: str | None = None
    read_only: bool | None = None
    deferrable: bool | None = None
    for option in options:
        element = option.def_elem
        value = element.arg.a_const
        if element.defname == "transaction_isolation":
            isolation = value.sval.sval
        elif element.defname == "transaction_read_only":
            read_only = bool(value.ival.ival)
        elif element.defname == "transaction_deferrable":
            deferrable = bool(value.ival.ival)
    return st.TransactionModes(isolation=isolation, read_only=read_only, deferrable=deferrable)


# ---------------------------------------------------------------- settings


def _set(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = tree.kind
    if kind == pb.VAR_RESET_ALL:
        return st.Reset(name=None)
    if kind == pb.VAR_RESET:
        return st.Reset(name=tree.name.lower())
    if kind == pb.VAR_SET_MULTI:
        if tree.name == "TRANSACTION SNAPSHOT":
            snapshot = tree.args[0].a_const.sval.sval
            return st.SetTransaction(modes=st.TransactionModes(), snapshot=snapshot)
        return st.SetTransaction(modes=_modes(tree.args), session=tree.name == "SESSION CHARACTERISTICS")
    if kind == pb.VAR_SET_CURRENT:
        raise FeatureNotSupported("SET ... FROM CURRENT is not supported")
    name = tree.name.lower()
    if kind == pb.VAR_SET_DEFAULT:
        return st.SetVariable(name=name, values=None, local=tree.is_local)
    return st.SetVariable(name=name, values=_setting_values(name, tree.args, parsed), local=tree.is_local)


def _setting_values(name: str, args: Any, parsed: Parsed) -> tuple[str, ...]:
    values = []
    for arg in args:
        if arg.HasField("type_cast"):
            # SET TIME ZONE INTERVAL '...' HOUR TO MINUTE
            values.append(f"INTERVAL '{arg.type_cast.arg.a_const.sval.sval}'")
            continue
        constant = arg.a_const
        if constant.HasField("ival"):
            values.append(str(constant.ival.ival))
        elif constant.HasField("fval"):
            values.append(constant.fval.fval)
        elif constant.HasField("boolval"):
            values.append("true" if constant.boolval.boolval else "false")
        else:
            text = constant.sval.sval
            values.append(quote_identifier(text) if name in _LIST_QUOTED else text)
    return tuple(values)


def _show(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.Show(name=tree.name.lower())


def _alter_system(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    inner = tree.setstmt
    if inner.kind == pb.VAR_RESET_ALL:
        return st.AlterSystem(name=None, value=None)
    name = inner.name.lower()
    if inner.kind in (pb.VAR_RESET, pb.VAR_SET_DEFAULT):
        return st.AlterSystem(name=name, value=None)
    return st.AlterSystem(name=name, value=", ".join(_setting_values(name, inner.args, parsed)))


def _alter_setting(parsed: Parsed, inner: Tree, database: str | None, role: str | None) -> st.UtilityStatement:
    if inner.kind == pb.VAR_RESET_ALL:
        return st.AlterSetting(name=None, values=None, reset=True, database=database, role=role)
    name = inner.name.lower()
    if inner.kind in (pb.VAR_RESET, pb.VAR_SET_DEFAULT):
        return st.AlterSetting(name=name, values=None, reset=True, database=database, role=role)
    values = _setting_values(name, inner.args, parsed)
    return st.AlterSetting(name=name, values=values, reset=False, database=database, role=role)


def _alter_database_set(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return _alter_setting(parsed, tree.setstmt, tree.dbname, None)


def _alter_role_set(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    role = role_name(tree.role) if tree.HasField("role") else None
    return _alter_setting(parsed, tree.setstmt, tree.database or None, role)


def _discard(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    if tree.target == pb.DISCARD_ALL:
        return st.Discard(target="all")
    if tree.target == pb.DISCARD_PLANS:
        return st.Discard(target="plans")
    return st.Discard(target="sequences" if tree.target == pb.DISCARD_SEQUENCES else "temp")


# ---------------------------------------------------------------- COPY


def _copy(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    columns = tuple(item.string.sval for item in tree.attlist)
    return st.Copy(
        table=qualified_name(tree.relation, parsed) if tree.HasField("relation") else None,
        query=parsed.part(tree.query) if tree.HasField("query") else None,
        columns=columns,
        is_from=tree.is_from,
        filename=tree.filename or None,
        program=tree.is_program,
        options=copy_options(tree, parsed),
        where=tree.HasField("where_clause"),
    )


# ---------------------------------------------------------------- statements about statements


def _explain(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    flags: dict[str, bool] = {}
    output = "text"
    for option in tree.options:
        element = option.def_elem
        name = element.defname.lower()
        if name == "format":
            output = (option_text(element) or "").lower()
            if output not in ("text", "json", "yaml", "xml"):
                raise InvalidParameterValue(
                    f'unrecognized value for EXPLAIN option "format": "{option_text(element)}"',
                    position=parsed.position(element.location),
                )
        elif name in ("analyze", "verbose", "costs", "buffers", "timing", "summary", "settings", "wal"):
            flags[name] = option_flag(element)
        else:
            raise SqlSyntaxError(
                f'unrecognized EXPLAIN option "{element.defname}"', position=parsed.position(element.location)
            )
    if flags.get("wal") and not flags.get("analyze"):
        raise InvalidParameterValue("EXPLAIN option WAL requires ANALYZE")
    if flags.get("timing") and not flags.get("analyze"):
        raise InvalidParameterValue("EXPLAIN option TIMING requires ANALYZE")
    return st.Explain(query=parsed.part(tree.query), format=output, **flags)  # type: ignore[arg-type]


def _prepare(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    types = tuple(resolve_type_name(node.type_name, parsed).oid for node in tree.argtypes)
    return st.Prepare(name=tree.name, param_types=types, query=parsed.part(tree.query))


def _execute(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.Execute(name=tree.name, count=len(tree.params), statement=parsed)


def _deallocate(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.Deallocate(name=None if tree.isall or not tree.name else tree.name)


_CURSOR_BINARY, _CURSOR_SCROLL, _CURSOR_NO_SCROLL, _CURSOR_INSENSITIVE, _CURSOR_HOLD = 1, 2, 4, 8, 32


def _declare(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    options = tree.options
    if options & _CURSOR_SCROLL and options & _CURSOR_NO_SCROLL:
        raise InvalidCursorDefinition("cannot specify both SCROLL and NO SCROLL")
    if options & _CURSOR_INSENSITIVE and options & 16:
        raise InvalidCursorDefinition("cannot specify both INSENSITIVE and ASENSITIVE")
    scroll = True if options & _CURSOR_SCROLL else False if options & _CURSOR_NO_SCROLL else None
    return st.DeclareCursor(
        name=tree.portalname,
        query=parsed.part(tree.query),
        binary=bool(options & _CURSOR_BINARY),
        scroll=scroll,
        hold=bool(options & _CURSOR_HOLD),
        insensitive=bool(options & _CURSOR_INSENSITIVE),
    )


_FETCH_ALL = 0x7FFFFFFFFFFFFFFF
_DIRECTIONS = {
    pb.FETCH_FORWARD: "forward",
    pb.FETCH_BACKWARD: "backward",
    pb.FETCH_ABSOLUTE: "absolute",
    pb.FETCH_RELATIVE: "relative",
}


def _fetch(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.Fetch(
        name=tree.portalname,
        direction=_DIRECTIONS[tree.direction],  # type: ignore[arg-type]
        count=None if tree.how_many == _FETCH_ALL else tree.how_many,
        move=tree.ismove,
    )


def _close(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.CloseCursor(name=tree.portalname or None)


# ---------------------------------------------------------------- the rest

_LOCK_MODES = (
    "", "AccessShareLock", "RowShareLock", "RowExclusiveLock", "ShareUpdateExclusiveLock", "ShareLock",
    "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock",
)  # fmt: skip


def _lock(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    tables = tuple(qualified_name(node.range_var, parsed) for node in tree.relations)
    return st.Lock(tables=tables, mode=_LOCK_MODES[tree.mode], nowait=tree.nowait)


def _vacuum(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    options = tuple((node.def_elem.defname.lower(), option_text(node.def_elem) or "true") for node in tree.options)
    allowed = _VACUUM_OPTIONS if tree.is_vacuumcmd else _ANALYZE_OPTIONS
    for node in tree.options:
        if node.def_elem.defname.lower() not in allowed:
            command = "VACUUM" if tree.is_vacuumcmd else "ANALYZE"
            raise SqlSyntaxError(
                f'unrecognized {command} option "{node.def_elem.defname}"',
                position=parsed.position(node.def_elem.location),
            )
    tables = tuple(qualified_name(node.vacuum_relation.relation, parsed) for node in tree.rels)
    return st.Vacuum(tables=tables, analyze_only=not tree.is_vacuumcmd, options=options)


_ANALYZE_OPTIONS = {"verbose", "skip_locked", "buffer_usage_limit"}
_VACUUM_OPTIONS = _ANALYZE_OPTIONS | {
    "analyze", "freeze", "full", "disable_page_skipping", "index_cleanup", "process_main", "process_toast", "truncate",
    "parallel", "skip_database_stats", "only_database_stats",
}  # fmt: skip


def _cluster(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.Cluster(table=qualified_name(tree.relation, parsed) if tree.HasField("relation") else None)


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
        concurrently=any(node.def_elem.defname == "concurrently" for node in tree.params),
    )


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


def _grant(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    objects = []
    for node in tree.objects:
        kind = node.WhichOneof("node")
        if kind == "range_var":
            objects.append(qualified_name(node.range_var, parsed))
        elif kind == "string":
            objects.append(st.QualifiedName(name=node.string.sval))
        elif kind == "object_with_args":
            objects.append(st.QualifiedName(name=node.object_with_args.objname[-1].string.sval))
        elif kind == "list":
            objects.append(st.QualifiedName(name=node.list.items[-1].string.sval))
    privileges = []
    for node in tree.privileges:
        columns = ", ".join(column.string.sval for column in node.access_priv.cols)
        name = node.access_priv.priv_name or "all"
        privileges.append(f"{name} ({columns})" if columns else name)
    return st.Grant(
        grant=tree.is_grant,
        privileges=tuple(privileges),
        kind=_GRANT_OBJECTS.get(tree.objtype, "object"),
        objects=tuple(objects),
        all_in_schema=tree.targtype == pb.ACL_TARGET_ALL_IN_SCHEMA,
        grantees=tuple(
            None if node.role_spec.roletype == pb.ROLESPEC_PUBLIC else role_name(node.role_spec)
            for node in tree.grantees
        ),
        grant_option=tree.grant_option,
    )


def _grant_role(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.GrantRole(
        grant=tree.is_grant,
        roles=tuple(node.access_priv.priv_name for node in tree.granted_roles),
        grantees=tuple(role_name(node.role_spec) for node in tree.grantee_roles),
    )


def _create_database(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    options = tuple((node.def_elem.defname, option_text(node.def_elem) or "") for node in tree.options)
    return st.CreateDatabase(name=tree.dbname, options=options)


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
            raise SqlSyntaxError("conflicting or redundant options", position=parsed.position(element.location))
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
        elif name != "sysid":
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
    return st.AlterRole(name=role_name(tree.role), options=_role_options(tree.options, parsed))


def _drop_role(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.DropRole(names=tuple(role_name(node.role_spec) for node in tree.roles), if_exists=tree.missing_ok)


def _do(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    given = {node.def_elem.defname: option_text(node.def_elem) or "" for node in tree.args}
    return st.Do(language=given.get("language", "plpgsql"), body=given.get("as", ""))


def _set_constraints(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    names = tuple(qualified_name(node.range_var, parsed) for node in tree.constraints)
    return st.SetConstraints(names=names, deferred=tree.deferred)


def _call(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    names = [node.string.sval for node in tree.funccall.funcname]
    schema = names[-2] if len(names) > 1 else None
    return st.Call(
        name=st.QualifiedName(name=names[-1], schema=schema, position=parsed.position(tree.funccall.location))
    )


_BUILDERS: dict[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "transaction_stmt": _transaction,
    "variable_set_stmt": _set,
    "variable_show_stmt": _show,
    "alter_system_stmt": _alter_system,
    "alter_database_set_stmt": _alter_database_set,
    "alter_role_set_stmt": _alter_role_set,
    "discard_stmt": _discard,
    "copy_stmt": _copy,
    "explain_stmt": _explain,
    "prepare_stmt": _prepare,
    "execute_stmt": _execute,
    "deallocate_stmt": _deallocate,
    "declare_cursor_stmt": _declare,
    "fetch_stmt": _fetch,
    "close_portal_stmt": _close,
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
    "alter_default_privileges_stmt": lambda parsed, tree: st.AlterDefaultPrivileges(),
    "createdb_stmt": _create_database,
    "dropdb_stmt": _drop_database,
    "create_role_stmt": _create_role,
    "alter_role_stmt": _alter_role,
    "drop_role_stmt": _drop_role,
    "do_stmt": _do,
    "constraints_set_stmt": _set_constraints,
    "call_stmt": _call,
}
