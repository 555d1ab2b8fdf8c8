"""ALTER of tables and other objects: actions, renaming, schema, owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from planner.definitions.deparse import expression_text
from planner.errors import FeatureNotSupported, SqlSyntaxError
from planner.statements import foreign as ft
from planner.statements import records as st
from planner.syntax.libpg_query import pb
from planner.syntax.names import name_from_list, oid_text, qualified_name, role_name, strings
from planner.syntax.object_kinds import ALTERED_KINDS, OBJECT_KINDS, RELATION_KINDS, words_of
from planner.syntax.options import storage_parameter
from planner.syntax.parse import Parsed, Tree
from planner.types.type_names import check_collatable, check_collation, resolve_type_name
from planner.types.types import SqlType
from planner.utility.foreign import option_changes
from planner.utility.routines import ROUTINES, given_routine, moved_routine, renamed_routine
from planner.utility.sequences import sequence_options
from planner.utility.tables import (
    check_column_name,
    check_column_type,
    check_place,
    column_definition,
    composite_type,
    constraint_definition,
)


def _alter_table(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    if parsed.extension is not None and parsed.extension.of_schema:
        return _alter_schema(parsed, tree)
    actions = tuple(_action(node.alter_table_cmd, parsed, tree.relation.relname) for node in tree.cmds)
    return st.AlterTable(
        name=qualified_name(tree.relation, parsed),
        actions=actions,
        kind=ALTERED_KINDS.get(tree.objtype, "table"),
        if_exists=tree.missing_ok,
        cascade=any(node.alter_table_cmd.behavior == pb.DROP_CASCADE for node in tree.cmds),
    )


def without_actions(parsed: Parsed) -> st.AlterTable:
    """An ALTER TABLE, as it would be without its actions, whatever is wrong with these."""
    tree = parsed.tree
    return st.AlterTable(
        name=qualified_name(tree.relation, parsed),
        actions=(),
        kind=ALTERED_KINDS.get(tree.objtype, "table"),
        if_exists=tree.missing_ok,
        cascade=False,
    )


def _alter_schema(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    """ALTER SCHEMA ... SET (...), which has been parsed as that of a table."""
    name = qualified_name(tree.relation, parsed)
    actions = [_action(node.alter_table_cmd, parsed, name.name) for node in tree.cmds]
    if name.schema is not None or len(actions) != 1 or not isinstance(actions[0], st.SetStorageOptions):
        raise SqlSyntaxError("syntax error in ALTER SCHEMA", position=parsed.position(tree.relation.location))
    return st.SetSchemaOptions(name=name.name, options=actions[0].options, reset=actions[0].reset)


def _action(command: Tree, parsed: Parsed, table: str) -> st.AlterTableAction:
    kind = command.subtype
    cascade = command.behavior == pb.DROP_CASCADE
    definition = getattr(command, "def")
    if kind == pb.AT_AddColumn:
        if definition.column_def.fdwoptions:
            raise FeatureNotSupported(
                "OPTIONS of a column that is added are not supported",
                hint="Add the column, then say ALTER COLUMN ... OPTIONS.",
            )
        column, constraints = column_definition(definition.column_def, parsed, table)
        return st.AddColumn(column=column, constraints=tuple(constraints), if_not_exists=command.missing_ok)
    if kind == pb.AT_AddOf:
        return st.SetRowTyping(of_type=composite_type(definition.type_name, parsed))
    if kind == pb.AT_DropOf:
        return st.SetRowTyping(of_type=0)
    if kind == pb.AT_DropColumn:
        return st.DropColumn(name=command.name, if_exists=command.missing_ok, cascade=cascade)
    if kind == pb.AT_ColumnDefault:
        has_default = command.HasField("def")
        return st.SetDefault(name=command.name, default=expression_text(definition) if has_default else None)
    if kind in (pb.AT_SetNotNull, pb.AT_DropNotNull):
        return st.SetNotNull(name=command.name, not_null=kind == pb.AT_SetNotNull)
    if kind == pb.AT_AlterColumnType:
        column_def = definition.column_def
        using = column_def.raw_default if column_def.HasField("raw_default") else None
        return st.SetColumnType(
            name=command.name,
            type=_new_type(command.name, column_def, parsed),
            collation=strings(column_def.coll_clause.collname)[-1] if column_def.HasField("coll_clause") else None,
            using=None if using is None else expression_text(using),
            written_using=None if using is None else parsed.expression(using),
            position=parsed.position(column_def.location),
        )
    if kind == pb.AT_AddConstraint:
        return st.AddConstraint(constraint=constraint_definition(definition.constraint, parsed, None))
    if kind == pb.AT_AlterConstraint:
        return _alter_constraint(definition.atalter_constraint)
    if kind == pb.AT_ValidateConstraint:
        return st.ValidateConstraint(name=command.name)
    if kind == pb.AT_DropConstraint:
        return st.DropConstraint(name=command.name, if_exists=command.missing_ok, cascade=cascade)
    if kind == pb.AT_AddIdentity:
        constraint = definition.constraint
        options = sequence_options(constraint.options, parsed, of_column=True)
        return st.AddIdentity(name=command.name, identity=constraint.generated_when, options=options)
    if kind == pb.AT_SetIdentity:
        return _set_identity(command.name, definition.list.items, parsed)
    if kind == pb.AT_DropIdentity:
        return st.DropIdentity(name=command.name, if_exists=command.missing_ok)
    if kind == pb.AT_DropExpression:
        return st.DropExpression(name=command.name, if_exists=command.missing_ok)
    if kind in (pb.AT_GenericOptions, pb.AT_AlterColumnGenericOptions):
        column_name = command.name if kind == pb.AT_AlterColumnGenericOptions else None
        return ft.SetForeignOptions(changes=option_changes(definition.list.items), column=column_name)
    if kind == pb.AT_ChangeOwner:
        return st.ChangeOwner(owner=role_name(command.newowner))
    if kind in _ROW_SECURITY:
        return _ROW_SECURITY[kind]
    if kind in (pb.AT_ClusterOn, pb.AT_DropCluster):
        return st.ClusterOn(index=command.name if kind == pb.AT_ClusterOn else None)
    if kind == pb.AT_ReplicaIdentity:
        identity = definition.replica_identity_stmt
        return st.SetReplicaIdentity(kind=identity.identity_type, index=identity.name)
    if kind == pb.AT_SetAccessMethod:
        check_place(command.name, "")
        return st.SetStorageOptions(description="SetAccessMethod")
    if kind in _KEPT_HOW:
        return st.SetStorageOptions(
            description=pb.AlterTableType.Name(kind).removeprefix("AT_"),
            column=command.name,
            options=((_KEPT_HOW[kind], definition.string.sval),),
        )
    if kind in _TUNING:
        listed = command.HasField("def") and kind != pb.AT_SetStatistics
        named = [item.def_elem for item in definition.list.items] if listed else []
        resets = kind in (pb.AT_ResetRelOptions, pb.AT_ResetOptions)
        if resets and any(element.HasField("arg") for element in named):
            raise SqlSyntaxError("RESET must not include values for parameters")
        return st.SetStorageOptions(
            description=pb.AlterTableType.Name(kind).removeprefix("AT_"),
            column=command.name,
            number=command.num,
            target=_whole_number(definition) if kind == pb.AT_SetStatistics else None,
            options=tuple(storage_parameter(element) for element in named),
            reset=resets,
        )
    raise FeatureNotSupported(f"ALTER TABLE action {pb.AlterTableType.Name(kind).removeprefix('AT_')} is not supported")


def _whole_number(tree: Tree) -> int:
    return int(tree.integer.ival)


def _alter_constraint(tree: Tree) -> st.AlterConstraint:
    if tree.alter_inheritability and tree.noinherit:
        raise FeatureNotSupported("FOREIGN KEY constraints cannot be marked NO INHERIT")
    if tree.alter_inheritability or tree.alter_enforceability:
        raise SqlSyntaxError("syntax error in ALTER CONSTRAINT")
    return st.AlterConstraint(name=tree.conname, deferrable=tree.deferrable, deferred=tree.initdeferred)


def _set_identity(column: str, items: Sequence[Tree], parsed: Parsed) -> st.SetIdentity:
    kinds = [item.def_elem for item in items if item.def_elem.defname == "generated"]
    if len(kinds) > 1:
        raise SqlSyntaxError("conflicting or redundant options", position=parsed.position(kinds[1].location))
    options = [item for item in items if item.def_elem.defname != "generated"]
    identity = chr(kinds[0].arg.integer.ival) if kinds else None
    return st.SetIdentity(name=column, identity=identity, options=sequence_options(options, parsed))


def _new_type(column: str, tree: Tree, parsed: Parsed) -> SqlType:
    """The type of ALTER COLUMN TYPE; PostgreSQL gives no positions here."""
    type = resolve_type_name(tree.type_name, parsed, located=False)
    check_column_type(column, type)
    if tree.HasField("coll_clause"):
        check_collation(strings(tree.coll_clause.collname), None)
        check_collatable(type, None)
    return type


_ROW_SECURITY = {
    pb.AT_EnableRowSecurity: st.SetRowSecurity(enabled=True),
    pb.AT_DisableRowSecurity: st.SetRowSecurity(enabled=False),
    pb.AT_ForceRowSecurity: st.SetRowSecurity(forced=True),
    pb.AT_NoForceRowSecurity: st.SetRowSecurity(forced=False),
}

_KEPT_HOW = {pb.AT_SetStorage: "storage", pb.AT_SetCompression: "compression"}

_TUNING = {
    pb.AT_SetStatistics,
    pb.AT_SetOptions,
    pb.AT_ResetOptions,
    pb.AT_SetRelOptions,
    pb.AT_ResetRelOptions,
    pb.AT_SetLogged,
    pb.AT_SetUnLogged,
    pb.AT_DropOids,
}


def _rename(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = tree.rename_type
    if kind in (pb.OBJECT_COLUMN, pb.OBJECT_ATTRIBUTE):
        if ALTERED_KINDS.get(tree.relation_type, "table") == "table":
            check_column_name(tree.newname)
        return st.RenameColumn(
            relation=qualified_name(tree.relation, parsed),
            name=tree.subname,
            new_name=tree.newname,
            kind=ALTERED_KINDS.get(tree.relation_type, "table"),
            if_exists=tree.missing_ok,
            cascade=tree.behavior == pb.DROP_CASCADE,
        )
    if kind in RELATION_KINDS:
        return st.RenameRelation(
            relation=qualified_name(tree.relation, parsed),
            new_name=tree.newname,
            kind=RELATION_KINDS[kind],
            if_exists=tree.missing_ok,
        )
    name = OBJECT_KINDS.get(kind)
    if kind == pb.OBJECT_DOMCONSTRAINT:
        domain = name_from_list(tree.object.list.items)
        return st.RenameObject(kind="domain constraint", name=tree.subname, new_name=tree.newname, relation=domain)
    if name in ROUTINES:
        return renamed_routine(parsed, tree, name)
    if name in ("type", "domain"):
        target = name_from_list(tree.object.list.items)
        return st.RenameObject(kind=name, name=target.name, new_name=tree.newname, relation=target)
    if name == "statistics object":
        return st.AlterStatistics(name=name_from_list(tree.object.list.items), new_name=tree.newname)
    if name == "server":
        return st.RenameObject(kind=name, name=tree.object.string.sval, new_name=tree.newname)
    if name not in ("schema", "database", "role", "constraint", "policy"):
        raise FeatureNotSupported(f"ALTER {words_of(name or 'object')} RENAME is not supported")
    relation = qualified_name(tree.relation, parsed) if name in ("constraint", "policy") else None
    return st.RenameObject(
        kind=name,
        name=tree.subname,
        new_name=tree.newname,
        relation=relation,
        if_exists=tree.missing_ok and name == "constraint",
    )


def _set_schema(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = RELATION_KINDS.get(tree.object_type)
    named = OBJECT_KINDS.get(tree.object_type)
    if named in ROUTINES:
        return moved_routine(parsed, tree, named)
    if tree.object_type in (pb.OBJECT_TYPE, pb.OBJECT_DOMAIN):
        kind = OBJECT_KINDS[tree.object_type]
        return st.SetSchema(relation=name_from_list(tree.object.list.items), new_schema=tree.newschema, kind=kind)
    if named == "statistics object":
        return st.AlterStatistics(name=name_from_list(tree.object.list.items), schema=tree.newschema)
    if named == "extension":
        return st.AlterExtension(name=tree.object.string.sval, schema=tree.newschema)
    if kind is None:
        raise FeatureNotSupported(f"{' '.join(parsed.source.split()[:2]).upper()} ... SET SCHEMA is not supported")
    return st.SetSchema(
        relation=qualified_name(tree.relation, parsed),
        new_schema=tree.newschema,
        kind=kind,
        if_exists=tree.missing_ok,
    )


def _alter_owner(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = OBJECT_KINDS.get(tree.object_type)
    if kind in ROUTINES:
        return given_routine(parsed, tree, kind)
    if kind in ("type", "domain"):
        name = name_from_list(tree.object.list.items)
        return st.ChangeTypeOwner(name=name, owner=role_name(tree.newowner), kind=kind)
    if kind == "statistics object":
        return st.AlterStatistics(name=name_from_list(tree.object.list.items), owner=role_name(tree.newowner))
    if kind == "large object":
        return st.AlterOwner(kind=kind, name=oid_text(tree.object), owner=role_name(tree.newowner))
    if kind not in ("schema", "database", "server"):
        raise FeatureNotSupported(f"ALTER {words_of(kind or 'object')} OWNER is not supported")
    return st.AlterOwner(kind=kind, name=tree.object.string.sval, owner=role_name(tree.newowner))


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "alter_table_stmt": _alter_table,
    "rename_stmt": _rename,
    "alter_object_schema_stmt": _set_schema,
    "alter_owner_stmt": _alter_owner,
}
"""By kind of parse tree: what makes its statement."""
