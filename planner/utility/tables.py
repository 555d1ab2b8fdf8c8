"""CREATE TABLE: columns, constraints, LIKE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal as OneOf

from msgspec.structs import replace

from planner.catalog_data.content import columns as catalog_columns
from planner.common_errors import missing_key_column, repeated_column
from planner.definitions.columns.storage import check_compression
from planner.definitions.deparse import expression_text
from planner.errors import (
    DuplicateColumn,
    FeatureNotSupported,
    InvalidParameterValue,
    InvalidTableDefinition,
    ObjectNotInPrerequisiteState,
    SqlError,
    SqlSyntaxError,
    UndefinedColumn,
    UndefinedObject,
    WrongObjectType,
)
from planner.statements import records as st
from planner.syntax.libpg_query import pb
from planner.syntax.names import qualified_name, strings
from planner.syntax.options import relation_parameters, storage_parameter
from planner.syntax.parse import Parsed, Tree
from planner.types import derived_oids
from planner.types.operator_classes import collation_name
from planner.types.system_relations import SYSTEM_COLUMN_NAMES
from planner.types.type_names import (
    SERIAL_TYPES,
    check_collatable,
    check_collation,
    format_type,
    resolve_type_name,
    type_row,
)
from planner.types.type_scope import record_of
from planner.types.types import INT2, INT4, INT8, SqlType
from planner.types.user_types import Attribute, attributes
from planner.utility.objects import index_element
from planner.utility.sequences import sequence_options
from storage.catalog.model import COMPOSITE, Relation

_ON_COMMIT: Mapping[int, OneOf["preserve", "delete", "drop"]] = {
    pb.ONCOMMIT_PRESERVE_ROWS: "preserve",
    pb.ONCOMMIT_DELETE_ROWS: "delete",
    pb.ONCOMMIT_DROP: "drop",
}


def check_place(method: str, tablespace: str) -> None:
    """Raise 42704 and 55000 for what a table cannot be kept by, and for what it cannot be kept in: there is one access
    method for tables, and one tablespace."""
    if tablespace == "pg_global":
        raise InvalidParameterValue("only shared relations can be placed in pg_global tablespace")
    if tablespace not in ("", "pg_default"):
        raise UndefinedObject(f'tablespace "{tablespace}" does not exist')
    if method in catalog_columns("pg_am")["amname"] and method != "heap":
        raise ObjectNotInPrerequisiteState(f'access method "{method}" is not of type TABLE')
    if method not in ("", "heap"):
        raise UndefinedObject(f'access method "{method}" does not exist')


def _create_table(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    if not tree.if_not_exists:
        return _table_written(parsed, tree)
    try:
        return _table_written(parsed, tree)
    except SqlError as error:
        # Where there is the table already, nothing else of it is looked at (PostgreSQL, transformCreateStmt).
        return st.CreateTable(
            name=qualified_name(tree.relation, parsed),
            columns=(),
            if_not_exists=True,
            temporary=tree.relation.relpersistence == "t",
            at_fault=error,
        )


def _table_written(parsed: Parsed, tree: Tree) -> st.CreateTable:
    check_place(tree.access_method, tree.tablespacename)
    if tree.HasField("partspec") or tree.HasField("partbound"):
        raise FeatureNotSupported("partitioned tables are not supported")
    if tree.inh_relations:
        raise FeatureNotSupported("table inheritance is not supported")
    of_type = composite_type(tree.of_typename, parsed) if tree.HasField("of_typename") else 0
    columns: list[st.ColumnDefinition] = []
    constraints: list[st.ConstraintDefinition] = []
    likes: list[st.LikeClause] = []
    for node in tree.table_elts:
        kind = node.WhichOneof("node")
        if kind == "column_def":
            of_field = _field(of_type, node.column_def, columns) if of_type else None
            type = None if of_field is None else of_field.type
            column, own = column_definition(node.column_def, parsed, tree.relation.relname, type)
            columns.append(column if of_field is None else replace(column, collation=_collation(of_field)))
            constraints.extend(own)
        elif kind == "constraint":
            constraints.append(constraint_definition(node.constraint, parsed, None))
        else:
            likes.append(_like(node.table_like_clause, parsed, len(columns)))
    if of_type:
        given = {column.name: column for column in columns}
        columns = [
            given.get(field.name)
            or st.ColumnDefinition(
                name=field.name,
                type=field.type,
                collation=_collation(field),
            )
            for field in attributes(derived_oids.row_type_oid(of_type)) or ()
        ]
    constraints.extend(constraint_definition(node.constraint, parsed, None) for node in tree.constraints)
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise repeated_column(column.name)
        seen.add(column.name)
    _check_constraints(columns, constraints, tree.relation.relname, bool(likes))
    primary = {name for constraint in constraints if constraint.kind == "p" for name in constraint.columns}
    if primary:
        columns = [replace(column, not_null=True) if column.name in primary else column for column in columns]
    return st.CreateTable(
        name=qualified_name(tree.relation, parsed),
        columns=tuple(columns),
        constraints=tuple(constraints),
        likes=tuple(likes),
        if_not_exists=tree.if_not_exists,
        temporary=tree.relation.relpersistence == "t",
        unlogged=tree.relation.relpersistence == "u",
        on_commit=on_commit(tree.oncommit),
        of_type=of_type,
        options=relation_parameters(tree.options),
    )


def composite_type(tree: Tree, parsed: Parsed) -> int:
    """The oid of the composite type that a typed table is OF. 42704, 42809."""
    type = resolve_type_name(tree, parsed, located=False)
    record = None if type.domain else record_of(type.oid)
    if not isinstance(record, Relation) or record.kind != COMPOSITE:
        raise WrongObjectType(f"type {format_type(type.declared_oid)} is not a composite type")
    return record.oid


def _field(of_type: int, tree: Tree, before: Sequence[st.ColumnDefinition]) -> Attribute:
    """The field that a column WITH OPTIONS is. 42703, 42701."""
    fields = attributes(derived_oids.row_type_oid(of_type)) or ()
    field = next((field for field in fields if field.name == tree.colname), None)
    if field is None:
        raise UndefinedColumn(f'column "{tree.colname}" does not exist')
    if any(column.name == field.name for column in before):
        raise DuplicateColumn(f'column "{field.name}" specified more than once')
    return field


def _collation(field: Attribute) -> str | None:
    return collation_name(field.collation) if field.collation else None


def on_commit(action: int) -> OneOf["none", "preserve", "delete", "drop"]:
    """What an OnCommitAction does with a temporary table at the end of a transaction; ``none`` when nothing is said."""
    return _ON_COMMIT.get(action, "none")


def _check_constraints(
    columns: list[st.ColumnDefinition], constraints: list[st.ConstraintDefinition], table: str, open_ended: bool
) -> None:
    names = {column.name for column in columns}
    primary_keys = 0
    for constraint in constraints:
        if constraint.using_index is not None:
            raise FeatureNotSupported("cannot use an existing index in CREATE TABLE", position=constraint.position)
        if constraint.kind == "p":
            primary_keys += 1
            if primary_keys > 1:
                raise InvalidTableDefinition(
                    f'multiple primary keys for table "{table}" are not allowed', position=constraint.position
                )
        # Those of foreign keys are looked for when the table that they reference is found.
        if constraint.kind in ("p", "u") and not open_ended:
            for name in constraint.columns:
                if name not in names:
                    raise missing_key_column(name, constraint.position)
            if len(set(constraint.columns)) != len(constraint.columns):
                twice = next(name for name in constraint.columns if constraint.columns.count(name) > 1)
                what = "primary key" if constraint.kind == "p" else "unique"
                raise DuplicateColumn(
                    f'column "{twice}" appears twice in {what} constraint', position=constraint.position
                )
            for name in constraint.include:
                if name not in names:
                    raise missing_key_column(name, constraint.position)


def column_definition(
    tree: Tree, parsed: Parsed, table: str, of_field: SqlType | None = None
) -> tuple[st.ColumnDefinition, list[st.ConstraintDefinition]]:
    """A ColumnDef of `table`: the column, and the constraints that stand with it. `of_field`: its type, where that is
    not written, in a typed table."""
    check_column_name(tree.colname)
    names = [name.string.sval for name in tree.type_name.names]
    serial = len(names) == 1 and names[0] in SERIAL_TYPES
    if of_field is not None:
        type = of_field
    elif serial:
        if tree.type_name.array_bounds:
            raise FeatureNotSupported(
                "array of serial is not implemented", position=parsed.position(tree.type_name.location)
            )
        type = SqlType(SERIAL_TYPES[names[0]])
    else:
        type = resolve_type_name(tree.type_name, parsed)
        check_column_type(tree.colname, type)
    if tree.compression:
        check_compression(type.declared_oid, tree.compression)
    collation: str | None = None
    if tree.HasField("coll_clause"):
        collation_names, position = strings(tree.coll_clause.collname), parsed.position(tree.coll_clause.location)
        check_collation(collation_names, position)
        check_collatable(type, position)
        collation = collation_names[-1]
    not_null: bool | None = True if serial else None
    default: Tree | None = None
    generation: Tree | None = None
    identity: str | None = None
    identity_options: st.SequenceOptions | None = None
    constraints: list[tuple[st.ConstraintDefinition, list[Tree]]] = []
    declared: tuple[st.ConstraintDefinition, list[Tree]] | None = None
    """The constraint that DEFERRABLE and the like would follow."""
    if tree.HasField("raw_default"):
        default = tree.raw_default
    of_column = f'for column "{tree.colname}" of table "{table}"'
    for node in tree.constraints:
        constraint = node.constraint
        kind = constraint.contype
        position = parsed.position(constraint.location)
        if kind in _TIMINGS:
            if declared is None:
                raise SqlSyntaxError(f"misplaced {_TIMINGS[kind]} clause", position=position)
            declared[1].append(constraint)
            continue
        declared = None
        if kind in (pb.CONSTR_NULL, pb.CONSTR_NOTNULL):
            wanted = kind == pb.CONSTR_NOTNULL
            if not_null is not None and not_null != wanted:
                raise SqlSyntaxError(f"conflicting NULL/NOT NULL declarations {of_column}", position=position)
            not_null = wanted
        elif kind == pb.CONSTR_DEFAULT:
            if default is not None or serial:
                raise SqlSyntaxError(
                    f"multiple default values specified {of_column}", position=None if serial else position
                )
            default = constraint.raw_expr
        elif kind == pb.CONSTR_IDENTITY:
            if identity is not None:
                raise SqlSyntaxError(f"multiple identity specifications {of_column}", position=position)
            if of_field is not None:
                raise FeatureNotSupported("identity columns are not supported on typed tables")
            if type.oid not in (INT2, INT4, INT8):
                raise InvalidParameterValue("identity column type must be smallint, integer, or bigint")
            identity = constraint.generated_when or "d"
            identity_options = sequence_options(constraint.options, parsed, of_column=True)
            if not_null is False:
                raise SqlSyntaxError(f"conflicting NULL/NOT NULL declarations {of_column}", position=position)
            not_null = True
        elif kind == pb.CONSTR_GENERATED:
            if generation is not None:
                raise SqlSyntaxError(f"multiple generation clauses specified {of_column}", position=position)
            if constraint.generated_kind != "s":
                raise FeatureNotSupported("virtual generated columns are not supported", position=position)
            generation = constraint.raw_expr
        else:
            found = constraint_definition(constraint, parsed, tree.colname)
            constraints.append((found, []))
            declared = constraints[-1]
            if found.kind == "p":
                if not_null is False:
                    raise SqlSyntaxError(f"conflicting NULL/NOT NULL declarations {of_column}", position=position)
                not_null = True
        if serial and identity is not None:
            raise SqlSyntaxError(f"both default and identity specified {of_column}")
        clashing = [
            name
            for name, given in (("default", default), ("identity", identity), ("generation expression", generation))
            if given is not None
        ]
        if len(clashing) > 1:
            raise SqlSyntaxError(f"both {clashing[0]} and {clashing[1]} specified {of_column}", position=position)
    column = st.ColumnDefinition(
        name=tree.colname,
        type=type,
        not_null=bool(not_null),
        default=None if default is None else expression_text(default),
        written_default=None if default is None else parsed.expression(default),
        generation=None if generation is None else expression_text(generation),
        written_generation=None if generation is None else parsed.expression(generation),
        serial=serial,
        identity=identity,
        identity_options=identity_options,
        collation=collation,
        position=parsed.position(tree.location),
    )
    return column, [_with_timing(definition, words, parsed) for definition, words in constraints]


def check_column_name(name: str) -> None:
    """Raises 42701 for the names of PostgreSQL's system columns."""
    if name in SYSTEM_COLUMN_NAMES:
        raise DuplicateColumn(f'column name "{name}" conflicts with a system column name')


def check_column_type(column: str, type: SqlType) -> None:
    """Raises 42P16 for a type that no column can have."""
    row = type_row(type.oid)
    if row is not None and row.type == "p":
        raise InvalidTableDefinition(f'column "{column}" has pseudo-type {format_type(type.oid)}')


def constraint_definition(tree: Tree, parsed: Parsed, column: str | None) -> st.ConstraintDefinition:
    """A Constraint, of `column` when it stands with one."""
    kind = tree.contype
    own = (column,) if column else ()
    definition = st.ConstraintDefinition(
        kind="c",
        name=tree.conname or None,
        not_valid=tree.skip_validation,
        deferrable=tree.deferrable,
        deferred=tree.initdeferred,
        position=parsed.position(tree.location),
    )
    if kind in (pb.CONSTR_PRIMARY, pb.CONSTR_UNIQUE):
        return replace(
            definition,
            kind="p" if kind == pb.CONSTR_PRIMARY else "u",
            columns=_names(tree.keys) or own,
            include=_names(tree.including),
            nulls_not_distinct=tree.nulls_not_distinct,
            using_index=tree.indexname or None,
        )
    if kind == pb.CONSTR_CHECK:
        return replace(
            definition,
            columns=own,
            expression=expression_text(tree.raw_expr),
            written=parsed.expression(tree.raw_expr),
            no_inherit=tree.is_no_inherit,
        )
    if kind == pb.CONSTR_FOREIGN:
        return replace(
            definition,
            kind="f",
            columns=_names(tree.fk_attrs) or own,
            foreign_table=qualified_name(tree.pktable, parsed),
            foreign_columns=_names(tree.pk_attrs),
            match=tree.fk_matchtype,
            on_update=tree.fk_upd_action,
            on_delete=tree.fk_del_action,
            delete_columns=_names(tree.fk_del_set_cols),
        )
    if kind == pb.CONSTR_EXCLUSION:
        return _exclusion(tree, parsed, definition)
    raise FeatureNotSupported("this kind of constraint is not supported", position=definition.position)


def _exclusion(tree: Tree, parsed: Parsed, definition: st.ConstraintDefinition) -> st.ConstraintDefinition:
    elements, operators = [], []
    for node in tree.exclusions:
        element, operator = node.list.items
        elements.append(index_element(element.index_elem, parsed))
        operators.append(strings(operator.list.items))
    index = st.CreateIndex(
        name=tree.conname or None,
        table=st.QualifiedName(name=""),
        method=tree.access_method or "btree",
        elements=tuple(elements),
        include=tuple(st.IndexElement(name=name, text=name) for name in _names(tree.including)),
        predicate=parsed.expression(tree.where_clause) if tree.HasField("where_clause") else None,
        tablespace=tree.indexspace or None,
        options=tuple(storage_parameter(node.def_elem) for node in tree.options),
    )
    return replace(definition, kind="x", index=index, operators=tuple(operators))


def _names(nodes: Sequence[Tree]) -> tuple[str, ...]:
    return tuple(node.string.sval for node in nodes)


_TIMINGS = {
    pb.CONSTR_ATTR_DEFERRABLE: "DEFERRABLE",
    pb.CONSTR_ATTR_NOT_DEFERRABLE: "NOT DEFERRABLE",
    pb.CONSTR_ATTR_DEFERRED: "INITIALLY DEFERRED",
    pb.CONSTR_ATTR_IMMEDIATE: "INITIALLY IMMEDIATE",
}
"""What follows a constraint of a column and says when it is checked."""


def _with_timing(definition: st.ConstraintDefinition, words: Sequence[Tree], parsed: Parsed) -> st.ConstraintDefinition:
    """A constraint of a column with what follows it (transformConstraintAttrs)."""
    deferrable: bool | None = None
    deferred: bool | None = None
    for tree in words:
        text, position = _TIMINGS[tree.contype], parsed.position(tree.location)
        if definition.kind == "c":
            raise SqlSyntaxError(f"misplaced {text} clause", position=position)
        if text.endswith("DEFERRABLE"):
            if deferrable is not None:
                raise SqlSyntaxError("multiple DEFERRABLE/NOT DEFERRABLE clauses not allowed", position=position)
            deferrable = text == "DEFERRABLE"
        else:
            if deferred is not None:
                raise SqlSyntaxError("multiple INITIALLY IMMEDIATE/DEFERRED clauses not allowed", position=position)
            deferred = text == "INITIALLY DEFERRED"
        if deferred and deferrable is False:
            raise SqlSyntaxError("constraint declared INITIALLY DEFERRED must be DEFERRABLE", position=position)
    return replace(definition, deferrable=bool(deferrable or deferred), deferred=bool(deferred))


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


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {"create_stmt": _create_table}
"""By kind of parse tree: what makes its statement."""
