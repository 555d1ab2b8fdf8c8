"""Exclusion constraints with `=` and, of ranges and multiranges, &&: no two rows have equal keys, or keys that overlap.
An index enforces them, as it enforces unique keys; rows with a NULL in their key exclude none.

Other operators are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, new_oid
from adapter.definitions.constraints.keys import taken_names
from adapter.definitions.indexes.creation import index_of
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from planner.catalog_data.content import columns
from planner.errors import FeatureNotSupported, UndefinedFunction, WrongObjectType
from planner.statements import records as st
from planner.types.operator_classes import equality, input_type, operator_family_name
from planner.types.ranges import range_or_multirange
from planner.types.type_names import format_type
from planner.types.types import under_domain
from storage.catalog.model import Constraint, Index, Relation

_OVERLAPS = "&&"


def declared_exclusions(
    running: Running,
    relation: Relation,
    definitions: Iterable[st.ConstraintDefinition],
    known: Collection[Constraint] = (),
) -> list[tuple[Constraint, Index]]:
    """The exclusion constraints in `definitions` with their indexes, for `relation`, whose record need not be in the
    catalog yet; `known` are other new constraints of it. Raises as CREATE INDEX, and 42883, 42809 and 0A000 for
    operators."""
    found: list[tuple[Constraint, Index]] = []
    taken = taken_names(own_catalog(running), relation, known)
    for definition in definitions:
        if definition.kind != "x":
            continue
        assert definition.index is not None
        index = index_of(running, relation, definition.index, taken, "excl")
        assert index is not None
        taken.add(index.name)
        operators = [_operator(relation, index, place, names) for place, names in enumerate(definition.operators)]
        overlapping = [place for place, names in enumerate(definition.operators) if names[-1] == _OVERLAPS]
        constraint = Constraint(
            oid=new_oid(running, relation.oid),
            name=index.name,
            relation=relation.oid,
            kind="x",
            columns=index.columns,
            enforced=True,
            deferrable=definition.deferrable,
            deferred=definition.deferred,
            index=index.oid,
            include=index.include,
            exclude_operators=tuple(operators),
        )
        found.append((constraint, replace(index, constraint=constraint.oid, overlapping=tuple(overlapping))))
    return found


def with_exclusions(relation: Relation, added: Iterable[tuple[Constraint, Index]]) -> Relation:
    """The table's record with the exclusion constraints `added`."""
    oids = [record.oid for pair in added for record in pair]
    return replace(relation, constraints=(*relation.constraints, *oids)) if oids else relation


def retype_exclusions(running: Running, indexes: Iterable[Index]) -> None:
    """Let the exclusion constraints of `indexes`, whose keys have other types now, have the operators of these."""
    for index in indexes:
        constraint = own_catalog(running).get(index.constraint or 0)
        if isinstance(constraint, Constraint):
            operators = tuple(
                constraint.exclude_operators[place] if place in index.overlapping else equality(operator_class)
                for place, operator_class in enumerate(index.operator_classes)
            )
            change(running, removed=[constraint], added=[replace(constraint, exclude_operators=operators)])


def _operator(relation: Relation, index: Index, place: int, names: tuple[str, ...]) -> int:
    """The operator of a key: its type's equality, or && of ranges."""
    name = names[-1]
    is_equality = name == "=" and names[:-1] in ((), ("pg_catalog",))
    operator_class = index.operator_classes[place]
    if is_equality and equality(operator_class):
        return equality(operator_class)
    type_oid = under_domain(_type_of(relation, index, place))
    operators = columns("pg_operator")
    fields = ("oid", "oprcom", "oprname", "oprleft", "oprright")
    rows = zip(*(operators[field] for field in fields), strict=True)
    wanted = [(name, of, of) for of in (type_oid, input_type(type_oid))]
    found = next((row for row in rows if row[2:] in wanted), None)
    if found is None:
        shown = format_type(type_oid)
        raise UndefinedFunction(
            f"operator does not exist: {shown} {name} {shown}",
            hint="No operator matches the given name and argument types. You might need to add explicit type casts.",
        )
    shown = format_type(found[3])
    if found[0] != found[1]:
        raise WrongObjectType(
            f"operator {name}({shown},{shown}) is not commutative",
            detail="Only commutative operators can be used in exclusion constraints.",
        )
    if is_equality or index.method not in ("gist", "spgist"):
        family = operator_family_name(operator_class)
        raise WrongObjectType(
            f'operator {name}({shown},{shown}) is not a member of operator family "{family}"',
            detail="The exclusion operator must be related to the index operator class for the constraint.",
        )
    if name == _OVERLAPS and range_or_multirange(type_oid) is not None:
        return int(found[0])
    raise FeatureNotSupported(f"exclusion constraints with operator {name}({shown},{shown}) are not supported")


def _type_of(relation: Relation, index: Index, place: int) -> int:
    attnum = index.columns[place]
    if attnum:
        return next(column.type_oid for column in relation.columns if column.attnum == attnum)
    return index.expression_types[sum(1 for other in index.columns[:place] if not other)][0]
