"""Functions and procedures of users: which ones a name means, their signatures, their statements, their defaults."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from planner.expressions.bind import DEFAULT_CLAUSE, bind_clause
from planner.functions import registry
from planner.functions.own_bodies import FUNCTIONS
from planner.ir.nodes import Scalar
from planner.resolution.statement import BindContext, Level, Statement
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Parsed, Tree, split_and_parse
from planner.types.derived_oids import FIRST_USER_TYPE, array_type_oid, row_type_oid
from planner.types.signature import Kind, Signature, Volatility
from planner.types.types import VOID, under_domain
from planner.types.user_types import STORED_SCHEMA, record_oid_of
from storage.catalog.model import FIRST_USER_OID
from storage.catalog.routines import Function, Parameter
from storage.catalog.types import UserRange


def is_user_function(signature: Signature) -> bool:
    """Whether the function with this signature is statements in SQL: a user has made it, or it is one of
    `planner.functions.own_bodies`."""
    return (signature.oid >= FIRST_USER_OID or signature.oid in FUNCTIONS) and signature.kind is not Kind.OPERATOR


def taken_by(record: Function) -> tuple[Parameter, ...]:
    """The parameters that a call gives arguments for: of CALL the OUT parameters too."""
    return record.parameters if record.kind == "p" else record.inputs


@lru_cache(maxsize=4096)
def signature_of(record: Function) -> Signature:
    """What the binder knows of a function, domains as the types under them."""
    procedure = record.kind == "p"
    taken = taken_by(record)
    kind = Kind.SET_RETURNING if record.returns_set else Kind.FUNCTION
    return Signature(
        name=record.name,
        kind=Kind.PROCEDURE if procedure else kind,
        args=tuple(under_domain(parameter.type_oid) for parameter in taken),
        result=under_domain(record.result or VOID),
        oid=record.oid,
        variadic=any(parameter.mode == "v" for parameter in taken),
        strict=record.strict,
        volatility=Volatility(record.volatility),
        defaults=sum(parameter.default is not None for parameter in taken),
    )


def functions_named(context: BindContext, schema: str | None, name: str) -> Iterator[tuple[str, Function]]:
    """The functions that a name can mean, each with its schema, in the order of the search path."""
    catalog = context.catalog
    if schema == STORED_SCHEMA and name.isdigit():
        record = catalog.get(int(name))
        if isinstance(record, Function):
            yield STORED_SCHEMA, record
        return
    for path in context.called_schemas() if schema is None else (schema,):
        found = catalog.schema(path)
        if found is not None:
            for record in catalog.functions(found.oid, name):
                yield path, record


def constructors_named(context: BindContext, schema: str | None, name: str) -> Iterator[tuple[str, Signature]]:
    """The constructors of ranges and multiranges of users that a name can mean: they are called as their types are."""
    catalog = context.catalog
    if schema == STORED_SCHEMA:
        record = catalog.get(int(name)) if name.isdigit() else None
        if isinstance(record, UserRange):
            yield from ((STORED_SCHEMA, signature) for signature in _constructors(record))
        return
    for path in context.called_schemas() if schema is None else (schema,):
        found = catalog.schema(path)
        record = None if found is None else catalog.get(catalog.type_names.get((found.oid, name), 0))
        if isinstance(record, UserRange):
            yield from ((path, signature) for signature in _constructors(record))


_LIKE_RANGE, _LIKE_MULTIRANGE = "numrange", "nummultirange"
"""The built-in constructors whose forms those of users have."""


@lru_cache(maxsize=1024)
def _constructors(record: UserRange) -> tuple[Signature, ...]:
    made = []
    for like in registry.functions(_LIKE_MULTIRANGE if record.is_multirange else _LIKE_RANGE):
        args: tuple[int, ...] = (record.subtype, record.subtype, *like.args[2:])
        if record.is_multirange:
            args = (array_type_oid(record.range) if like.variadic else row_type_oid(record.range),) * len(like.args)
        made.append(replace(like, name=record.name, args=args, result=row_type_oid(record.oid)))
    return tuple(made)


def constructed(signature: Signature) -> int:
    """The oid of the record of the range or multirange of a user whose constructor this is, 0 for other functions."""
    if signature.result <= FIRST_USER_TYPE:
        return 0
    known = (*registry.functions(_LIKE_RANGE), *registry.functions(_LIKE_MULTIRANGE))
    return record_oid_of(signature.result) if any(like.oid == signature.oid for like in known) else 0


def record_of(context: BindContext, signature: Signature) -> Function:
    """The function with this signature."""
    record = FUNCTIONS.get(signature.oid) or context.catalog.get(signature.oid)
    assert isinstance(record, Function)
    return record


# ---------------------------------------------------------------- statements


@lru_cache(maxsize=1024)
def statements_of(body: str, sql_body: str | None) -> tuple[Parsed, ...]:
    """The statements of a function's body. Raises 42601 and what else the parser raises."""
    if sql_body is None:
        return split_and_parse(body)
    return standard_statements(split_and_parse(f"CREATE FUNCTION f() {sql_body}")[0])


def standard_statements(create: Parsed) -> tuple[Parsed, ...]:
    """The statements of the body in a CREATE FUNCTION whose body is no string: RETURN is a SELECT."""
    nodes = _nodes_of(create)
    return tuple(create.part(_as_select(node) if node.HasField("return_stmt") else node) for node in nodes)


def returning_statements(create: Parsed) -> tuple[bool, ...]:
    """Which of `standard_statements` are a RETURN."""
    return tuple(node.HasField("return_stmt") for node in _nodes_of(create))


def returns_of(sql_body: str) -> tuple[bool, ...]:
    """Which of the statements of a standard body are a RETURN."""
    return returning_statements(split_and_parse(f"CREATE FUNCTION f() {sql_body}")[0])


def _nodes_of(create: Parsed) -> list[Tree]:
    body = create.tree.sql_body
    return [body] if body.HasField("return_stmt") else [node for part in body.list.items for node in part.list.items]


def _as_select(node: Tree) -> Tree:
    """RETURN as the SELECT that gives its value."""
    select = pb.Node()
    target = select.select_stmt.target_list.add().res_target
    target.val.CopyFrom(node.return_stmt.returnval)
    select.select_stmt.limit_option = pb.LIMIT_OPTION_DEFAULT
    select.select_stmt.op = pb.SETOP_NONE
    return select


# ---------------------------------------------------------------- defaults


@lru_cache(maxsize=1024)
def _expression(text: str) -> tuple[Parsed, Any]:
    parsed = split_and_parse(f"SELECT {text}")[0]
    return parsed, parsed.tree.target_list[0].res_target.val


def default_argument(statement: Statement, record: Function, place: int) -> Scalar:
    """What a call gets for the input parameter at `place` when it gives nothing."""
    text = taken_by(record)[place].default
    assert text is not None
    parsed, tree = _expression(text)
    outer = statement.parsed, statement.view_depth, statement.arguments, statement.reads_stored
    statement.parsed, statement.view_depth, statement.arguments = parsed, statement.view_depth + 1, None
    statement.reads_stored = True
    try:
        return bind_clause(Level(statement, None), tree, DEFAULT_CLAUSE)
    finally:
        statement.parsed, statement.view_depth, statement.arguments, statement.reads_stored = outer
