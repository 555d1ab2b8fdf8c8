"""Indexes that become something else: a constraint (ADD CONSTRAINT ... USING INDEX), or those of a table that is LIKE
theirs (CREATE TABLE ... LIKE ... INCLUDING INDEXES).

Source of the rules: PostgreSQL's transformIndexConstraint and generateClonedIndexStmt.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, new_oid
from adapter.definitions.constraints.checks import without_constraints
from adapter.definitions.constraints.keys import forget_names, taken_names
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.definitions.index_expressions import distinct_names, index_expression, index_predicate
from planner.definitions.object_names import free_name
from planner.errors import ObjectNotInPrerequisiteState, UndefinedObject, WrongObjectType
from planner.statements import records as st
from planner.types.derived_oids import index_oid
from planner.types.operator_classes import column_collation, default_operator_class
from planner.types.table_indexes import constraint_of_index, index_called
from storage.catalog.model import Comment, Constraint, Index, Relation

_NO_KEY = "Cannot create a primary key or unique constraint using such an index."


def constraint_from_index(
    running: Running, relation: Relation, definition: st.ConstraintDefinition
) -> tuple[Relation, st.ConstraintDefinition, Index]:
    """ADD CONSTRAINT ... USING INDEX: the table's record without the index, which is no index of its own any more, and
    the constraint as if it had been written out. Raises 42704, 55000, 42809."""
    index = _usable_for(running, relation, definition)
    names = {column.attnum: column.name for column in relation.columns}
    written = replace(
        definition,
        name=definition.name or index.name,
        columns=tuple(names[attnum] for attnum in index.columns),
        include=tuple(names[attnum] for attnum in index.include),
        nulls_not_distinct=index.nulls_not_distinct,
        using_index=None,
    )
    if written.name != index.name:
        message = f'ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index "{index.name}" to "{written.name}"'
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
    changed = without_constraints(relation, [index])
    moved = [relation] if changed is not relation else []
    change(running, removed=[*moved, index], added=[changed] if moved else [])
    forget_names(running, [index])
    return changed, written, index


def keep_comments(running: Running, index: Index, oid: int) -> None:
    """Let the comments on `index` be on the index with this oid."""
    catalog = own_catalog(running)
    comments = [record for record in catalog.all() if isinstance(record, Comment) and record.object_oid == index.oid]
    change(running, removed=comments, added=[replace(comment, object_oid=oid) for comment in comments])


def _usable_for(running: Running, relation: Relation, definition: st.ConstraintDefinition) -> Index:
    name, position = definition.using_index or "", definition.position
    catalog = own_catalog(running)
    index = index_called(catalog, relation.schema, name)
    if index is None:
        raise UndefinedObject(f'index "{name}" does not exist', position=position)
    if constraint_of_index(catalog, index.oid) is not None:
        raise ObjectNotInPrerequisiteState(f'index "{name}" is already associated with a constraint', position=position)
    if index.relation != relation.oid:
        raise ObjectNotInPrerequisiteState(
            f'index "{name}" does not belong to table "{relation.name}"', position=position
        )
    what = None
    if not index.unique:
        what = f'"{name}" is not a unique index'
    elif index.expressions:
        what = f'index "{name}" contains expressions'
    elif index.predicate is not None:
        what = f'"{name}" is a partial index'
    if what is not None:
        raise WrongObjectType(what, detail=_NO_KEY, position=position)
    columns = {column.attnum: column for column in relation.columns}
    keys = zip(index.columns, index.options, index.operator_classes, index.collations, strict=True)
    for number, (attnum, option, operator_class, collation) in enumerate(keys, 1):
        default = option == 0 and operator_class == default_operator_class(columns[attnum].type_oid)
        if not default or collation != column_collation(columns[attnum]):
            raise WrongObjectType(
                f'index "{name}" column number {number} does not have default sorting behavior',
                detail=_NO_KEY,
                position=position,
            )
    return index


# ---------------------------------------------------------------- LIKE ... INCLUDING INDEXES


def copied_keys(running: Running, source: Relation) -> list[st.ConstraintDefinition]:
    """The primary key and the unique constraints of `source` as a table that is LIKE it would declare them."""
    names = {column.attnum: column.name for column in source.columns}
    keys = [key for key in own_catalog(running).constraints(source.oid) if key.kind in ("p", "u")]
    return [_as_declared(key, names) for key in keys]


def _as_declared(key: Constraint, names: dict[int, str]) -> st.ConstraintDefinition:
    return st.ConstraintDefinition(
        kind="p" if key.kind == "p" else "u",
        columns=tuple(names[attnum] for attnum in key.columns),
        include=tuple(names[attnum] for attnum in key.include),
        deferrable=key.deferrable,
        deferred=key.deferred,
        nulls_not_distinct=key.nulls_not_distinct,
    )


def copy_indexes(running: Running, relation: Relation, source: Relation) -> dict[int, int]:
    """Give the new, empty `relation` the indexes that `source` has besides those of its constraints: the oids of the
    new ones, by those that they were made from."""
    copies: dict[int, int] = {}
    context = running.session.bind_context(own_catalog(running))
    names = {column.attnum: column.name for column in source.columns}
    attnums = {column.name: column.attnum for column in relation.columns}
    for index in own_catalog(running).indexes(source.oid):
        expressions = [index_expression(relation, text, context, stored=True) for text in index.expressions]
        predicate = None
        if index.predicate is not None:
            predicate = index_predicate(relation, index.predicate, context, stored=True)
        called = iter(index.expression_names)
        words = [names[attnum] if attnum else next(called) for attnum in (*index.columns, *index.include)]
        taken = taken_names(own_catalog(running), relation)
        reads = [attnum for expression in expressions for attnum in expression.columns]
        copy = replace(
            index,
            oid=new_oid(running, relation.oid),
            name=free_name(relation.name, "_".join(distinct_names(words)), "idx", taken.has_relation),
            schema=relation.schema,
            relation=relation.oid,
            columns=tuple(attnums[names[attnum]] if attnum else 0 for attnum in index.columns),
            include=tuple(attnums[names[attnum]] for attnum in index.include),
            expressions=tuple(expression.text for expression in expressions),
            predicate=None if predicate is None else predicate.text,
            reads=tuple(dict.fromkeys([*reads, *(() if predicate is None else predicate.columns)])),
        )
        copies[index.oid] = copy.oid
        if not copy.enforced:
            change(running, added=[copy])
            continue
        current = own_catalog(running).get(relation.oid)
        assert isinstance(current, Relation)
        added: list[Constraint | Index] = [copy]
        exclusion = own_catalog(running).get(index.constraint or 0)
        if isinstance(exclusion, Constraint):
            taken = taken_names(own_catalog(running), relation)
            name = free_name(relation.name, "_".join(distinct_names(words)), "excl", taken.__contains__)
            oid = new_oid(running, relation.oid)
            added = [
                replace(copy, name=name, constraint=oid),
                replace(
                    exclusion,
                    oid=oid,
                    name=name,
                    relation=relation.oid,
                    columns=copy.columns,
                    include=copy.include,
                    index=copy.oid,
                ),
            ]
        oids = [record.oid for record in added]
        after = replace(current, constraints=(*current.constraints, *oids))
        change(running, removed=[current], added=[after, *added])
    return copies


def copy_comments(
    running: Running, relation: Relation, source: Relation, including: frozenset[str], indexes: Mapping[int, int]
) -> None:
    """Give the new `relation` the comments on what it has of `source`: on its columns, and on checks and indexes as far
    as they are `including`; `indexes` are those that are no constraints'."""
    catalog = own_catalog(running)
    new = catalog.get(relation.oid)
    assert isinstance(new, Relation)
    names = {column.attnum: column.name for column in source.columns}
    attnums = {column.name: column.attnum for column in new.columns}
    places = {(source.oid, column.attnum): (new.oid, attnums[column.name]) for column in source.live_columns()}
    places |= {(old, 0): (copy, 0) for old, copy in indexes.items()}
    own = catalog.constraints(new.oid)
    for constraint in catalog.constraints(source.oid):
        columns = tuple(attnums.get(names[attnum]) for attnum in constraint.columns)
        if constraint.kind == "c" and "constraints" in including:
            copy = next((each for each in own if each.kind == "c" and each.name == constraint.name), None)
            if copy is not None:
                places[constraint.oid, 0] = copy.oid, 0
        elif constraint.kind in "pu" and "indexes" in including:
            copy = next((each for each in own if each.kind == constraint.kind and each.columns == columns), None)
            if copy is not None:
                places[index_oid(constraint.oid), 0] = index_oid(copy.oid), 0
    comments = [record for record in catalog.all() if isinstance(record, Comment)]
    change(
        running,
        added=[
            replace(comment, oid=new_oid(running), object_oid=place[0], subid=place[1])
            for comment in comments
            if (place := places.get((comment.object_oid, comment.subid))) is not None
        ],
    )
