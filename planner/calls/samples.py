"""TABLESAMPLE: which rows of a table it takes.

With REPEATABLE those whose number and the seed have an MD5 sum below the share: the same rows each time, as long as
they are the same. Otherwise a random number decides, for each row another. Both methods of PostgreSQL look at single
rows here: there are no pages that SYSTEM could take.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from planner.errors import InvalidTablesampleArgument, UndefinedObject
from planner.expressions.bind import bind
from planner.functions import own
from planner.functions.registry import functions
from planner.ir.nodes import Call, Cast, ColumnRef, Literal, Scalar
from planner.resolution.casting import to_specific
from planner.resolution.operators import make_operator
from planner.resolution.statement import Level
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.types import FLOAT4, FLOAT8, INT8, TEXT, SqlType
from planner.values.sample_bounds import sample_bound, sample_seed

_METHODS = ("bernoulli", "system")


def check_method(level: Level, tree: Tree) -> None:
    """Raises 42704 when there is no such method."""
    method = strings(tree.method)[-1]
    if method not in _METHODS:
        raise UndefinedObject(
            f"tablesample method {method} does not exist", position=level.statement.position(tree.location)
        )


def sample_condition(level: Level, tree: Tree) -> Callable[[int], Scalar]:
    """What tells by the field of a row's number whether the row is in the sample. Raises 2202H and 2202G."""
    statement = level.statement
    if len(tree.args) != 1:
        raise InvalidTablesampleArgument(
            f"tablesample method {strings(tree.method)[-1]} requires 1 argument, not {len(tree.args)}",
            position=statement.position(tree.location),
        )
    share = _argument(level, tree.args[0], FLOAT4, "TABLESAMPLE")
    if isinstance(share, Literal):
        value = share.value
        assert value is None or isinstance(value, (int, float))
        limit: Scalar = Literal(value=sample_bound(value), type=SqlType(TEXT))
        if value is not None and not tree.HasField("repeatable"):
            part = Literal(value=float(value) / 100, type=SqlType(FLOAT8))
            by_chance = make_operator(level, ("<",), _random(), part, -1)
            return lambda _: by_chance
    else:
        (bound,) = own.functions("sample_bound")
        limit = Call(signature=bound, args=(share,), type=SqlType(TEXT))
    if tree.HasField("repeatable"):
        seed = _argument(level, tree.repeatable, FLOAT8, "REPEATABLE")
        if isinstance(seed, Literal):
            assert seed.value is None or isinstance(seed.value, (int, float))
            salt: Scalar = Literal(value=sample_seed(seed.value), type=SqlType(TEXT))
        else:
            (seeded,) = own.functions("sample_seed")
            salt = Call(signature=seeded, args=(seed,), type=SqlType(TEXT))
    else:
        # NOTE: as an integer, whose text the engines make themselves.
        large = make_operator(level, ("*",), _random(), Literal(value=2.0**53, type=SqlType(FLOAT8)), -1)
        salt = _as_text(Cast(arg=large, type=SqlType(INT8), explicit=True))
    (md5,) = [signature for signature in functions("md5") if signature.args == (TEXT,)]

    def chosen(row_id: int) -> Scalar:
        number = _as_text(ColumnRef(id=row_id, type=SqlType(INT8)))
        parted = make_operator(level, ("||",), number, Literal(value=":", type=SqlType(TEXT)), -1)
        summed = make_operator(level, ("||",), parted, salt, -1)
        digest = Call(signature=md5, args=(summed,), type=SqlType(TEXT))
        return make_operator(level, ("<",), digest, limit, -1)

    return chosen


def _random() -> Scalar:
    (random,) = functions("random")
    return Call(signature=random, args=(), type=SqlType(FLOAT8))


def _argument(level: Level, node: Tree, type_: int, clause: str) -> Scalar:
    outer_active, outer_clause = level.lateral_active, level.clause
    level.lateral_active, level.clause = True, "functions in FROM"
    try:
        value = to_specific(level.statement, bind(level, node), SqlType(type_), clause)
    finally:
        level.lateral_active, level.clause = outer_active, outer_clause
    number = value.arg.value if isinstance(value, Cast) and isinstance(value.arg, Literal) else None
    return value if not isinstance(number, (int, Decimal)) else Literal(value=float(number), type=value.type)


def _as_text(value: Scalar) -> Scalar:
    return Cast(arg=value, type=SqlType(TEXT), explicit=True)
