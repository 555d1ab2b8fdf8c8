"""From parse trees to statements about tables, views, schemas and the like (PostgreSQL's DDL)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from postgast import pg_query_pb2 as pb

from planner import statements as st
from planner.deparse import expression_text
from planner.errors import (
    DuplicateColumn,
    FeatureNotSupported,
    InvalidTableDefinition,
    SqlSyntaxError,
    UndefinedColumn,
)
from planner.names import name_from_list, qualified_name, role_name
from planner.parse import Parsed, Tree
from planner.type_names import SERIAL_TYPES, format_type, resolve_type_name
from planner.types import INT2, INT4, INT8, SqlType

_ON_COMMIT = {pb.ONCOMMIT_DELETE_ROWS: "delete", pb.ONCOMMIT_DROP: "drop"}

_RELATION_KINDS = {
    pb.OBJECT_TABLE: "table",
    pb.OBJECT_VIEW: "view",
    pb.OBJECT_MATVIEW: "materialized view",
    pb.OBJECT_INDEX: "index",
    pb.OBJECT_SEQUENCE: "sequence",
    pb.OBJECT_FOREIGN_TABLE: "foreign table",
}
_OBJECT_KINDS = _RELATION_KINDS | {
    pb.OBJECT_SCHEMA: "schema",
    pb.OBJECT_DATABASE: "database",
    pb.OBJECT_ROLE: "role",
    pb.OBJECT_TYPE: "type",
    pb.OBJECT_DOMAIN: "domain",
    pb.OBJECT_FUNCTION: "function",
    pb.OBJECT_PROCEDURE: "procedure",
    pb.OBJECT_ROUTINE: "routine",
    pb.OBJECT_AGGREGATE: "aggregate",
    pb.OBJECT_OPERATOR: "operator",
    pb.OBJECT_COLLATION: "collation",
    pb.OBJECT_CONVERSION: "conversion",
    pb.OBJECT_EXTENSION: "extension",
    pb.OBJECT_TRIGGER: "trigger",
    pb.OBJECT_RULE: "rule",
    pb.OBJECT_POLICY: "policy",
    pb.OBJECT_LANGUAGE: "language",
    pb.OBJECT_CAST: "cast",
    pb.OBJECT_TABLESPACE: "tablespace",
    pb.OBJECT_PUBLICATION: "publication",
    pb.OBJECT_SUBSCRIPTION: "subscription",
    pb.OBJECT_EVENT_TRIGGER: "event trigger",
    pb.OBJECT_FDW: "foreign-data wrapper",
    pb.OBJECT_FOREIGN_SERVER: "server",
    pb.OBJECT_STATISTIC_EXT: "statistics object",
    pb.OBJECT_TABCONSTRAINT: "constraint",
    pb.OBJECT_COLUMN: "column",
    pb.OBJECT_ATTRIBUTE: "attribute",
    pb.OBJECT_ACCESS_METHOD: "access method",
    pb.OBJECT_OPCLASS: "operator class",
    pb.OBJECT_OPFAMILY: "operator family",
    pb.OBJECT_TSCONFIGURATION: "text search configuration",
    pb.OBJECT_TSDICTIONARY: "text search dictionary",
    pb.OBJECT_TSPARSER: "text search parser",
    pb.OBJECT_TSTEMPLATE: "text search template",
    pb.OBJECT_TRANSFORM: "transform",
    pb.OBJECT_USER_MAPPING: "user mapping",
    pb.OBJECT_LARGEOBJECT: "large object",
}


# ---------------------------------------------------------------- CREATE TABLE


def _create_table(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    if tree.HasField("partspec") or tree.HasField("partbound"):
        raise FeatureNotSupported("partitioned tables are not supported")
    if tree.inh_relations:
        raise FeatureNotSupported("table inheritance is not supported")
    if tree.HasField("of_typename"):
        raise FeatureNotSupported("typed tables are not supported")
    columns: list[st.ColumnDefinition] = []
    constraints: list[st.ConstraintDefinition] = []
    likes: list[st.LikeClause] = []
    for node in tree.table_elts:
        kind = node.WhichOneof("node")
        if kind == "column_def":
            column, own = _column(node.column_def, parsed, tree.relation.relname)
            columns.append(column)
            constraints.extend(own)
        elif kind == "constraint":
            constraint = _constraint(node.constraint, parsed, None)
            if constraint is not None:
                constraints.append(constraint)
        else:
            likes.append(_like(node.table_like_clause, parsed, len(columns)))
    constraints.extend(filter(None, (_constraint(node.constraint, parsed, None) for node in tree.constraints)))
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise DuplicateColumn(f'column "{column.name}" specified more than once')
        seen.add(column.name)
    _check_constraints(columns, constraints, tree.relation.relname, bool(likes))
    primary = {name for constraint in constraints if constraint.kind == "p" for name in constraint.columns}
    if primary:
        columns = [_with_not_null(column) if column.name in primary else column for column in columns]
    return st.CreateTable(
        name=qualified_name(tree.relation, parsed),
        columns=tuple(columns),
        constraints=tuple(constraints),
        likes=tuple(likes),
        if_not_exists=tree.if_not_exists,
        temporary=tree.relation.relpersistence == "t",
        unlogged=tree.relation.relpersistence == "u",
        on_commit=_ON_COMMIT.get(tree.oncommit, "preserve"),  # type: ignore[arg-type]
        options=tuple((node.def_elem.defname, _option(node.def_elem)) for node in tree.options),
    )


def _option(element: Tree) -> str:
    if not element.HasField("arg"):
        return "true"
    value = getattr(element.arg, element.arg.WhichOneof("node"))
    for name in ("sval", "ival", "fval", "boolval"):
        if hasattr(value, name):
            return str(getattr(value, name))
    return ""


def _with_not_null(column: st.ColumnDefinition) -> st.ColumnDefinition:
    values = {name: getattr(column, name) for name in st.ColumnDefinition.__slots__}
    return st.ColumnDefinition(**{**values, "not_null": True})


def _check_constraints(
    columns: list[st.ColumnDefinition], constraints: list[st.ConstraintDefinition], table: str, open_ended: bool
) -> None:
    names = {column.name for column in columns}
    primary_keys = 0
    for constraint in constraints:
        if constraint.kind == "p":
            primary_keys += 1
            if primary_keys > 1:
                raise InvalidTableDefinition(
                    f'multiple primary keys for table "{table}" are not allowed', position=constraint.position
                )
        if constraint.kind in ("p", "u", "f") and not open_ended:
            for name in constraint.columns:
                if name in names:
                    continue
                if constraint.kind == "f":
                    raise UndefinedColumn(f'column "{name}" referenced in foreign key constraint does not exist')
                raise UndefinedColumn(f'column "{name}" named in key does not exist', position=constraint.position)
            if constraint.kind != "f" and len(set(constraint.columns)) != len(constraint.columns):
                twice = next(name for name in constraint.columns if constraint.columns.count(name) > 1)
                what = "primary key" if constraint.kind == "p" else "unique"
                raise DuplicateColumn(
                    f'column "{twice}" appears twice in {what} constraint', position=constraint.position
                )


def _column(tree: Tree, parsed: Parsed, table: str) -> tuple[st.ColumnDefinition, list[st.ConstraintDefinition]]:
    names = [name.string.sval for name in tree.type_name.names]
    serial = len(names) == 1 and names[0] in SERIAL_TYPES
    if serial:
        if tree.type_name.array_bounds:
            raise FeatureNotSupported(
                "array of serial is not implemented", position=parsed.position(tree.type_name.location)
            )
        type = SqlType(SERIAL_TYPES[names[0]])
    else:
        type = resolve_type_name(tree.type_name, parsed)
        _check_column_type(tree, type)
    not_null: bool | None = True if serial else None
    default: str | None = None
    identity: str | None = None
    constraints: list[st.ConstraintDefinition] = []
    if tree.HasField("raw_default"):
        default = expression_text(tree.raw_default)
    for node in tree.constraints:
        constraint = node.constraint
        kind = constraint.contype
        position = parsed.position(constraint.location)
        if kind in (pb.CONSTR_NULL, pb.CONSTR_NOTNULL):
            wanted = kind == pb.CONSTR_NOTNULL
            if not_null is not None and not_null != wanted:
                raise SqlSyntaxError(
                    f'conflicting NULL/NOT NULL declarations for column "{tree.colname}" of table "{table}"',
                    position=position,
                )
            not_null = wanted
        elif kind == pb.CONSTR_DEFAULT:
            if default is not None or serial:
                raise SqlSyntaxError(
                    f'multiple default values specified for column "{tree.colname}" of table "{table}"',
                    position=None if serial else position,
                )
            default = expression_text(constraint.raw_expr)
        elif kind == pb.CONSTR_IDENTITY:
            if type.oid not in (INT2, INT4, INT8):
                from planner.errors import InvalidParameterValue

                raise InvalidParameterValue("identity column type must be smallint, integer, or bigint")
            identity = constraint.generated_when or "d"
            not_null = True
        elif kind == pb.CONSTR_GENERATED:
            raise FeatureNotSupported("generated columns are not supported", position=position)
        else:
            found = _constraint(constraint, parsed, tree.colname)
            if found is not None:
                constraints.append(found)
                if found.kind == "p":
                    if not_null is False:
                        raise SqlSyntaxError(
                            f'conflicting NULL/NOT NULL declarations for column "{tree.colname}" of table "{table}"',
                            position=position,
                        )
                    not_null = True
    collation = tree.coll_clause.collname[-1].string.sval if tree.HasField("coll_clause") else None
    column = st.ColumnDefinition(
        name=tree.colname,
        type=type,
        not_null=bool(not_null),
        default=default,
        serial=serial,
        identity=identity,
        collation=collation,
        position=parsed.position(tree.location),
    )
    return column, constraints


def _check_column_type(tree: Tree, type: SqlType) -> None:
    from planner.type_names import type_row

    row = type_row(type.oid)
    if row is not None and row.type == "p":
        raise InvalidTableDefinition(f'column "{tree.colname}" has pseudo-type {format_type(type.oid)}')


def _constraint(tree: Tree, parsed: Parsed, column: str | None) -> st.ConstraintDefinition | None:
    kind = tree.contype
    name = tree.conname or None
    position = parsed.position(tree.location)
    if kind in (pb.CONSTR_PRIMARY, pb.CONSTR_UNIQUE):
        columns = tuple(key.string.sval for key in tree.keys) or ((column,) if column else ())
        return st.ConstraintDefinition(
            kind="p" if kind == pb.CONSTR_PRIMARY else "u", name=name, columns=columns, position=position
        )
    if kind == pb.CONSTR_CHECK:
        return st.ConstraintDefinition(
            kind="c",
            name=name,
            columns=(column,) if column else (),
            expression=expression_text(tree.raw_expr),
            position=position,
        )
    if kind == pb.CONSTR_FOREIGN:
        columns = tuple(key.string.sval for key in tree.fk_attrs) or ((column,) if column else ())
        return st.ConstraintDefinition(
            kind="f",
            name=name,
            columns=columns,
            foreign_table=qualified_name(tree.pktable, parsed),
            foreign_columns=tuple(key.string.sval for key in tree.pk_attrs),
            position=position,
        )
    if kind == pb.CONSTR_EXCLUSION:
        raise FeatureNotSupported("exclusion constraints are not supported", position=position)
    if kind in (
        pb.CONSTR_ATTR_DEFERRABLE,
        pb.CONSTR_ATTR_NOT_DEFERRABLE,
        pb.CONSTR_ATTR_DEFERRED,
        pb.CONSTR_ATTR_IMMEDIATE,
    ):
        return None
    raise FeatureNotSupported("this kind of constraint is not supported", position=position)


_LIKE_OPTIONS = {
    1: "comments",
    2: "compression",
    4: "constraints",
    8: "defaults",
    16: "generated",
    32: "identity",
    64: "indexes",
    128: "statistics",
    256: "storage",
}


def _like(tree: Tree, parsed: Parsed, index: int) -> st.LikeClause:
    including = frozenset(name for bit, name in _LIKE_OPTIONS.items() if tree.options & bit)
    return st.LikeClause(table=qualified_name(tree.relation, parsed), including=including, index=index)


# ---------------------------------------------------------------- CREATE ... AS, views, schemas, indexes, sequences


def _create_table_as(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    into = tree.into
    return st.CreateTableAs(
        name=qualified_name(into.rel, parsed),
        query=parsed.part(tree.query),
        column_names=tuple(node.string.sval for node in into.col_names),
        if_not_exists=tree.if_not_exists,
        with_data=not into.skip_data,
        temporary=into.rel.relpersistence == "t",
        materialized_view=tree.objtype == pb.OBJECT_MATVIEW,
        on_commit=_ON_COMMIT.get(into.on_commit, "preserve"),  # type: ignore[arg-type]
    )


def select_into(parsed: Parsed) -> st.CreateTableAs:
    """SELECT ... INTO as the CREATE TABLE AS that it is. `parsed.tree` is a SelectStmt with an INTO clause."""
    node = pb.Node()
    node.select_stmt.CopyFrom(parsed.tree)
    leftmost = node.select_stmt
    while leftmost.HasField("larg"):
        leftmost = leftmost.larg
    into = pb.IntoClause()
    into.CopyFrom(leftmost.into_clause)
    leftmost.ClearField("into_clause")
    return st.CreateTableAs(
        name=qualified_name(into.rel, parsed),
        query=parsed.part(node),
        temporary=into.rel.relpersistence == "t",
        select_into=True,
    )


def _refresh(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.RefreshMaterializedView(
        name=qualified_name(tree.relation, parsed), concurrently=tree.concurrent, with_data=not tree.skip_data
    )


def _create_view(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    if tree.with_check_option not in (0, pb.NO_CHECK_OPTION):
        raise FeatureNotSupported("WITH CHECK OPTION is not supported")
    return st.CreateView(
        name=qualified_name(tree.view, parsed),
        query=parsed.part(tree.query),
        column_names=tuple(node.string.sval for node in tree.aliases),
        or_replace=tree.replace,
        temporary=tree.view.relpersistence == "t",
    )


def _create_schema(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    owner = role_name(tree.authrole) if tree.HasField("authrole") else None
    return st.CreateSchema(
        name=tree.schemaname or owner or "",
        if_not_exists=tree.if_not_exists,
        owner=owner,
        elements=tuple(parsed.part(node) for node in tree.schema_elts),
    )


def _create_index(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    columns = tuple(node.index_elem.name or expression_text(node.index_elem.expr) for node in tree.index_params)
    return st.CreateIndex(
        name=tree.idxname or None,
        table=qualified_name(tree.relation, parsed),
        columns=columns,
        unique=tree.unique,
        concurrently=tree.concurrent,
        if_not_exists=tree.if_not_exists,
    )


def _sequence_options(options: Any, parsed: Parsed) -> st.SequenceOptions:
    given: dict[str, Any] = {}
    for node in options:
        element = node.def_elem
        name = element.defname
        if name in given:
            raise SqlSyntaxError("conflicting or redundant options", position=parsed.position(element.location))
        has_value = element.HasField("arg")
        if name == "as":
            given["type"] = resolve_type_name(element.arg.type_name, parsed)
        elif name == "owned_by":
            given["owned_by"] = tuple(item.string.sval for item in element.arg.list.items)
        elif name == "cycle":
            given["cycle"] = bool(element.arg.boolean.boolval)
        elif name == "restart":
            given["restart"] = True
            given["restart_with"] = _integer(element) if has_value else None
        elif name in ("minvalue", "maxvalue"):
            long = "minimum" if name == "minvalue" else "maximum"
            if has_value:
                given[long] = _integer(element)
            else:
                given[f"no_{long}"] = True
        elif name in ("start", "increment", "cache"):
            given[name] = _integer(element)
        else:
            raise FeatureNotSupported(f'sequence option "{name}" is not supported')
    return st.SequenceOptions(**given)


def _integer(element: Tree) -> int:
    if element.arg.HasField("float"):
        return int(element.arg.float.fval)
    return int(element.arg.integer.ival)


def _create_sequence(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.CreateSequence(
        name=qualified_name(tree.sequence, parsed),
        options=_sequence_options(tree.options, parsed),
        if_not_exists=tree.if_not_exists,
        temporary=tree.sequence.relpersistence == "t",
    )


def _alter_sequence(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.AlterSequence(
        name=qualified_name(tree.sequence, parsed),
        options=_sequence_options(tree.options, parsed),
        if_exists=tree.missing_ok,
    )


# ---------------------------------------------------------------- DROP, TRUNCATE, COMMENT


def _drop(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = _OBJECT_KINDS.get(tree.remove_type)
    if kind is None:
        raise FeatureNotSupported(f"{' '.join(parsed.source.split()[:2]).upper()} is not supported")
    names = []
    for node in tree.objects:
        which = node.WhichOneof("node")
        if which == "list":
            names.append(name_from_list(node.list.items))
        elif which == "string":
            names.append(st.QualifiedName(name=node.string.sval))
        elif which == "type_name":
            names.append(name_from_list(node.type_name.names))
        elif which == "object_with_args":
            names.append(name_from_list(node.object_with_args.objname))
    return st.Drop(kind=kind, names=tuple(names), if_exists=tree.missing_ok, cascade=tree.behavior == pb.DROP_CASCADE)


def _truncate(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.Truncate(
        tables=tuple(qualified_name(node.range_var, parsed) for node in tree.relations),
        restart_identity=tree.restart_seqs,
        cascade=tree.behavior == pb.DROP_CASCADE,
    )


def _comment(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = _OBJECT_KINDS.get(tree.objtype, "object")
    node = tree.object
    which = node.WhichOneof("node")
    # In libpg_query's tree COMMENT IS NULL and IS '' look alike; PostgreSQL treats an empty comment as none.
    text = tree.comment or None
    relation: st.QualifiedName | None = None
    if which == "list":
        parts = list(node.list.items)
        if kind in ("column", "constraint", "trigger", "rule", "policy") and len(parts) > 1:
            relation = name_from_list(parts[:-1])
            return st.Comment(kind=kind, name=parts[-1].string.sval, relation=relation, text=text)
        relation = name_from_list(parts)
        return st.Comment(kind=kind, name=relation.name, relation=relation, text=text)
    if which == "string":
        return st.Comment(kind=kind, name=node.string.sval, relation=None, text=text)
    if which == "type_name":
        relation = name_from_list(node.type_name.names)
    elif which == "object_with_args":
        relation = name_from_list(node.object_with_args.objname)
    return st.Comment(kind=kind, name=relation.name if relation else "", relation=relation, text=text)


# ---------------------------------------------------------------- ALTER


def _alter_table(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    actions = tuple(_action(node.alter_table_cmd, parsed, tree.relation.relname) for node in tree.cmds)
    return st.AlterTable(
        name=qualified_name(tree.relation, parsed),
        actions=actions,
        kind=_RELATION_KINDS.get(tree.objtype, "table"),
        if_exists=tree.missing_ok,
    )


def _action(command: Tree, parsed: Parsed, table: str) -> st.AlterTableAction:
    kind = command.subtype
    cascade = command.behavior == pb.DROP_CASCADE
    definition = getattr(command, "def")
    if kind == pb.AT_AddColumn:
        column, constraints = _column(definition.column_def, parsed, table)
        return st.AddColumn(column=column, constraints=tuple(constraints), if_not_exists=command.missing_ok)
    if kind == pb.AT_DropColumn:
        return st.DropColumn(name=command.name, if_exists=command.missing_ok, cascade=cascade)
    if kind == pb.AT_ColumnDefault:
        has_default = command.HasField("def")
        return st.SetDefault(name=command.name, default=expression_text(definition) if has_default else None)
    if kind in (pb.AT_SetNotNull, pb.AT_DropNotNull):
        return st.SetNotNull(name=command.name, not_null=kind == pb.AT_SetNotNull)
    if kind == pb.AT_AlterColumnType:
        column_def = definition.column_def
        using = expression_text(column_def.raw_default) if column_def.HasField("raw_default") else None
        return st.SetColumnType(
            name=command.name,
            type=resolve_type_name(column_def.type_name, parsed),
            using=using,
            position=parsed.position(column_def.location),
        )
    if kind == pb.AT_AddConstraint:
        constraint = _constraint(definition.constraint, parsed, None)
        if constraint is not None:
            return st.AddConstraint(constraint=constraint)
    if kind == pb.AT_DropConstraint:
        return st.DropConstraint(name=command.name, if_exists=command.missing_ok, cascade=cascade)
    if kind == pb.AT_ChangeOwner:
        return st.ChangeOwner(owner=role_name(command.newowner))
    if kind in _TUNING:
        return st.SetStorageOptions(description=pb.AlterTableType.Name(kind).removeprefix("AT_"))
    raise FeatureNotSupported(f"ALTER TABLE action {pb.AlterTableType.Name(kind).removeprefix('AT_')} is not supported")


_TUNING = {
    pb.AT_SetStatistics,
    pb.AT_SetOptions,
    pb.AT_ResetOptions,
    pb.AT_SetStorage,
    pb.AT_SetRelOptions,
    pb.AT_ResetRelOptions,
    pb.AT_SetCompression,
    pb.AT_ClusterOn,
    pb.AT_DropCluster,
    pb.AT_ReplicaIdentity,
    pb.AT_ValidateConstraint,
}


def _rename(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = tree.rename_type
    if kind in (pb.OBJECT_COLUMN, pb.OBJECT_ATTRIBUTE):
        return st.RenameColumn(
            relation=qualified_name(tree.relation, parsed),
            name=tree.subname,
            new_name=tree.newname,
            kind=_RELATION_KINDS.get(tree.relation_type, "table"),
            if_exists=tree.missing_ok,
        )
    if kind in _RELATION_KINDS:
        return st.RenameRelation(
            relation=qualified_name(tree.relation, parsed),
            new_name=tree.newname,
            kind=_RELATION_KINDS[kind],
            if_exists=tree.missing_ok,
        )
    name = _OBJECT_KINDS.get(kind)
    if name not in ("schema", "database", "role", "constraint"):
        raise FeatureNotSupported(f"ALTER {(name or 'object').upper()} RENAME is not supported")
    relation = qualified_name(tree.relation, parsed) if name == "constraint" else None
    return st.RenameObject(kind=name, name=tree.subname, new_name=tree.newname, relation=relation)


def _set_schema(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = _RELATION_KINDS.get(tree.object_type)
    if kind is None:
        raise FeatureNotSupported(f"{' '.join(parsed.source.split()[:2]).upper()} ... SET SCHEMA is not supported")
    return st.SetSchema(
        relation=qualified_name(tree.relation, parsed),
        new_schema=tree.newschema,
        kind=kind,
        if_exists=tree.missing_ok,
    )


def _alter_owner(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = _OBJECT_KINDS.get(tree.object_type)
    if kind not in ("schema", "database"):
        raise FeatureNotSupported(f"ALTER {(kind or 'object').upper()} OWNER is not supported")
    return st.AlterOwner(kind=kind, name=tree.object.string.sval, owner=role_name(tree.newowner))


DDL: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "create_stmt": _create_table,
    "create_table_as_stmt": _create_table_as,
    "refresh_mat_view_stmt": _refresh,
    "view_stmt": _create_view,
    "create_schema_stmt": _create_schema,
    "index_stmt": _create_index,
    "create_seq_stmt": _create_sequence,
    "alter_seq_stmt": _alter_sequence,
    "drop_stmt": _drop,
    "truncate_stmt": _truncate,
    "comment_stmt": _comment,
    "alter_table_stmt": _alter_table,
    "rename_stmt": _rename,
    "alter_object_schema_stmt": _set_schema,
    "alter_owner_stmt": _alter_owner,
}
"""By kind of parse tree: what makes its statement."""
