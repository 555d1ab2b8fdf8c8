"""The typed intermediate representation: what the binder makes and the lowerings print.

Immutable relational and scalar nodes. Every cast, type, null order and column is explicit, left to no engine's rules.

Columns: each relational node has `fields`, its output columns. A `Field.id` is unique within one bound statement; a
scalar refers to a column by that id (`ColumnRef`), from whatever depth, so a correlated reference is a `ColumnRef`
whose id belongs to an enclosing query. The lowerings name the column ``c<id>``.

Invariants: a node's expressions use only the fields of its inputs (and, inside a subquery or the right side of a
lateral join, of the enclosing scopes). Arguments of a `Call` have exactly the types of its resolved signature.
"""

from __future__ import annotations

from typing import Literal as OneOf
from typing import TypeAlias

from msgspec import Struct

from planner.ir.domain_faults import DomainFault
from planner.ir.row_marks import RowMark
from planner.types.signature import Signature
from planner.types.types import SqlType


class Origin(Struct, frozen=True, kw_only=True):
    """The table column that an output column plainly is, for RowDescription."""

    relation_oid: int
    attnum: int


class Field(Struct, frozen=True, kw_only=True):
    """An output column of a relational node. `name` is for people; `id` is what expressions refer to."""

    id: int
    name: str
    type: SqlType
    origin: Origin | None = None


# ---------------------------------------------------------------- scalars


class Literal(Struct, frozen=True, kw_only=True):
    """A constant. `value` is None (NULL) or, by type: bool, int, str (text, uuid, json), bytes, float,
    decimal.Decimal, datetime.date/time/datetime (naive = timestamp, UTC-aware = timestamptz), `Interval`, tuple
    (arrays). What Python lacks of dates and times: int (days, microseconds), "infinity", "-infinity"."""

    value: object
    type: SqlType


class Interval(Struct, frozen=True):
    """PostgreSQL's interval: three numbers that are never normalised across each other."""

    months: int
    days: int
    micros: int


class Param(Struct, frozen=True, kw_only=True):
    """`$index` (1-based). Its value is given at execution as a `Literal` of the same type."""

    index: int
    type: SqlType


class ColumnRef(Struct, frozen=True, kw_only=True):
    """The column with this id, of this query or an enclosing one."""

    id: int
    type: SqlType


class SessionValue(Struct, frozen=True, kw_only=True):
    """What depends on session or transaction: `name` is one of now, statement_timestamp, clock_timestamp, current_user,
    session_user, current_database, current_schema, current_schemas, search_path, timezone, backend_pid, txid,
    setting:<name>, ... It is replaced by a `Literal` before lowering (planner.resolution.session_values.substitute)."""

    name: str
    type: SqlType
    args: tuple[Scalar, ...] = ()


class Call(Struct, frozen=True, kw_only=True):
    """A function or operator applied to arguments. `signature` says which; the registry has its form per engine."""

    signature: Signature
    args: tuple[Scalar, ...]
    type: SqlType


class Cast(Struct, frozen=True, kw_only=True):
    """A conversion from `arg.type` to `type`. `explicit` truncates to a length where assignment raises 22001."""

    arg: Scalar
    type: SqlType
    explicit: bool = False


class DomainValue(Struct, frozen=True, kw_only=True):
    """`arg`, of the type under a domain, as a value of the domain. Each of the `rules`, conditions on the `LetValue` of
    this `id`, is not false, or the error beside it is raised; None: the value is not NULL."""

    arg: Scalar
    id: int
    rules: tuple[tuple[Scalar | None, DomainFault], ...]
    type: SqlType
    explicit: bool = False


class ForEach(Struct, frozen=True, kw_only=True):
    """The array of what `body` is for each element of `arg`, which is the `LetValue` of this `id`."""

    arg: Scalar
    id: int
    body: Scalar
    type: SqlType


class BoolOp(Struct, frozen=True, kw_only=True):
    """AND / OR over two or more boolean operands, or NOT over one."""

    op: OneOf["and", "or", "not"]
    args: tuple[Scalar, ...]
    type: SqlType


class IsNull(Struct, frozen=True, kw_only=True):
    """`arg IS NULL` or, negated, IS NOT NULL. PostgreSQL's all-fields rule for rows is made explicit by the binder."""

    arg: Scalar
    negated: bool
    type: SqlType


class BooleanTest(Struct, frozen=True, kw_only=True):
    """`arg IS [NOT] TRUE | FALSE | UNKNOWN`."""

    arg: Scalar
    test: OneOf["true", "false", "unknown"]
    negated: bool
    type: SqlType


class Distinct(Struct, frozen=True, kw_only=True):
    """`left IS [NOT] DISTINCT FROM right`; both have the same type."""

    left: Scalar
    right: Scalar
    negated: bool
    type: SqlType


class Case(Struct, frozen=True, kw_only=True):
    """Searched CASE (a simple CASE is rewritten by the binder). No ELSE is ELSE NULL."""

    whens: tuple[tuple[Scalar, Scalar], ...]
    otherwise: Scalar | None
    type: SqlType


class Let(Struct, frozen=True, kw_only=True):
    """`body`, in which `LetValue` of this `id` stands for `value`, evaluated once (for a simple CASE or NULLIF)."""

    id: int
    value: Scalar
    body: Scalar
    type: SqlType


class LetValue(Struct, frozen=True, kw_only=True):
    """The value of an enclosing `Let`."""

    id: int
    type: SqlType


class Coalesce(Struct, frozen=True, kw_only=True):
    """COALESCE; all arguments have the result's type."""

    args: tuple[Scalar, ...]
    type: SqlType


class MinMax(Struct, frozen=True, kw_only=True):
    """GREATEST / LEAST, which ignore NULLs; all arguments have the result's type."""

    op: OneOf["greatest", "least"]
    args: tuple[Scalar, ...]
    type: SqlType


class InList(Struct, frozen=True, kw_only=True):
    """`arg [NOT] IN (items)` with PostgreSQL's three-valued result; `equals` is the = operator chosen for it."""

    arg: Scalar
    items: tuple[Scalar, ...]
    equals: Signature
    negated: bool
    type: SqlType


class QuantifiedArray(Struct, frozen=True, kw_only=True):
    """`arg op ANY|ALL (array)`; `operator` compares arg with the array's element type."""

    arg: Scalar
    operator: Signature
    quantifier: OneOf["any", "all"]
    array: Scalar
    type: SqlType


class ArrayConstructor(Struct, frozen=True, kw_only=True):
    """ARRAY[...]; `type` is the array type, items have its element type (or are arrays, for more dimensions)."""

    items: tuple[Scalar, ...]
    type: SqlType


class Subscript(Struct, frozen=True, kw_only=True):
    """`arg[i][j]`, or `arg[i:k][j:l]` when `slice`: `lower` has i, j, `upper` k, l; None for a bound left out."""

    arg: Scalar
    lower: tuple[Scalar | None, ...]
    upper: tuple[Scalar | None, ...]
    slice: bool
    type: SqlType


class SubscriptAssignment(Struct, frozen=True, kw_only=True):
    """`arg` after an assignment to the part that `Subscript` would read; `items` is an array of what is put there."""

    arg: Scalar
    lower: tuple[Scalar | None, ...]
    upper: tuple[Scalar | None, ...]
    slice: bool
    items: Scalar
    type: SqlType


class RowConstructor(Struct, frozen=True, kw_only=True):
    """ROW(...), `names` f1, f2, ... or a whole row's. With `nullable` NULL when all items are or when `value` is."""

    items: tuple[Scalar, ...]
    names: tuple[str, ...]
    type: SqlType
    nullable: bool = False
    value: Scalar | None = None


class FieldSelect(Struct, frozen=True, kw_only=True):
    """`(arg).name` of a record whose fields the binder knows; `index` is its place among them, from 0."""

    arg: Scalar
    name: str
    type: SqlType
    index: int


class ScalarSubquery(Struct, frozen=True, kw_only=True):
    """A subquery as a value: NULL without rows, 21000 with more than one."""

    rel: Rel
    type: SqlType


class Exists(Struct, frozen=True, kw_only=True):
    """`[NOT] EXISTS (rel)`."""

    rel: Rel
    negated: bool
    type: SqlType


class QuantifiedSubquery(Struct, frozen=True, kw_only=True):
    """`(args) op ANY|ALL (rel)`; IN is `= ANY`, NOT IN is `<> ALL`.

    With several columns `operators` compares them pairwise (row comparison, for = and <> only).
    """

    args: tuple[Scalar, ...]
    operators: tuple[Signature, ...]
    quantifier: OneOf["any", "all"]
    rel: Rel
    type: SqlType


class ArraySubquery(Struct, frozen=True, kw_only=True):
    """ARRAY(subquery): an empty array without rows; keeps the subquery's order."""

    rel: Rel
    type: SqlType


class Collate(Struct, frozen=True, kw_only=True):
    """`arg COLLATE "C"` and its like: only bytewise collations exist, so the value is unchanged."""

    arg: Scalar
    collation: str
    type: SqlType


Scalar: TypeAlias = (
    Literal
    | Param
    | ColumnRef
    | SessionValue
    | Call
    | Cast
    | DomainValue
    | ForEach
    | BoolOp
    | IsNull
    | BooleanTest
    | Distinct
    | Case
    | Let
    | LetValue
    | Coalesce
    | MinMax
    | InList
    | QuantifiedArray
    | ArrayConstructor
    | Subscript
    | SubscriptAssignment
    | RowConstructor
    | FieldSelect
    | ScalarSubquery
    | Exists
    | QuantifiedSubquery
    | ArraySubquery
    | Collate
)


class SortKey(Struct, frozen=True, kw_only=True):
    """One ORDER BY key, with the null order always said."""

    expr: Scalar
    descending: bool
    nulls_first: bool


class AggregateCall(Struct, frozen=True, kw_only=True):
    """An aggregate over a group. For ordered-set aggregates `args` are the direct arguments and `order_by` the
    WITHIN GROUP keys. `count(*)` has no args."""

    signature: Signature
    args: tuple[Scalar, ...]
    type: SqlType
    distinct: bool = False
    filter: Scalar | None = None
    order_by: tuple[SortKey, ...] = ()


class FrameBound(Struct, frozen=True, kw_only=True):
    """One end of a window frame; `offset` for the two OFFSET kinds."""

    kind: OneOf["unbounded_preceding", "offset_preceding", "current_row", "offset_following", "unbounded_following"]
    offset: Scalar | None = None


class Frame(Struct, frozen=True, kw_only=True):
    """A window frame, never implicit: the binder writes PostgreSQL's default out."""

    mode: OneOf["rows", "range", "groups"]
    start: FrameBound
    end: FrameBound
    exclude: OneOf["no_others", "current_row", "group", "ties"] = "no_others"


class WindowCall(Struct, frozen=True, kw_only=True):
    """A window function, or an aggregate over a frame."""

    signature: Signature
    args: tuple[Scalar, ...]
    type: SqlType
    partition_by: tuple[Scalar, ...]
    order_by: tuple[SortKey, ...]
    frame: Frame
    filter: Scalar | None = None


# ---------------------------------------------------------------- relations


class OneRow(Struct, frozen=True, kw_only=True):
    """A single row without columns: SELECT without FROM."""

    fields: tuple[Field, ...] = ()


class Scan(Struct, frozen=True, kw_only=True):
    """A user table. Each field's origin says which attnum it reads. `row_id`, when asked for, is the id of an extra
    int8 output column (also the last of `fields`) with the row's id."""

    relation_oid: int
    fields: tuple[Field, ...]
    row_id: int | None = None


class SystemScan(Struct, frozen=True, kw_only=True):
    """A system relation: `schema`.`name` of pg_catalog, information_schema or tidegate; runs on the local engine.
    A field's origin attnum is its position in the relation (1-based; system columns negative)."""

    schema: str
    name: str
    relation_oid: int
    fields: tuple[Field, ...]


class Values(Struct, frozen=True, kw_only=True):
    """Constant rows (expressions without column references to this query)."""

    rows: tuple[tuple[Scalar, ...], ...]
    fields: tuple[Field, ...]


class FunctionCall(Struct, frozen=True, kw_only=True):
    """One function in FROM. `fields` are its own output columns. A scalar function gives one row."""

    signature: Signature
    args: tuple[Scalar, ...]
    fields: tuple[Field, ...]


class FunctionScan(Struct, frozen=True, kw_only=True):
    """Functions in FROM, zipped as ROWS FROM does; `ordinality` is the id of the WITH ORDINALITY column, the last."""

    functions: tuple[FunctionCall, ...]
    ordinality: int | None
    fields: tuple[Field, ...]


class Project(Struct, frozen=True, kw_only=True):
    """Computes `exprs`, one for each of `fields`."""

    input: Rel
    exprs: tuple[Scalar, ...]
    fields: tuple[Field, ...]


class ProjectSet(Struct, frozen=True, kw_only=True):
    """Set-returning functions of a select list: each input row repeats as long as the longest of `functions`, the
    others padded with NULL. Output: the input's fields, then the functions' fields."""

    input: Rel
    functions: tuple[FunctionCall, ...]
    fields: tuple[Field, ...]


class Filter(Struct, frozen=True, kw_only=True):
    """The rows for which `condition` is true."""

    input: Rel
    condition: Scalar
    fields: tuple[Field, ...]


class Join(Struct, frozen=True, kw_only=True):
    """A join; `fields` are left's then right's. With `lateral`, the right side may refer to the left's columns.
    USING and NATURAL are rewritten by the binder to a condition and a projection."""

    kind: OneOf["cross", "inner", "left", "right", "full"]
    left: Rel
    right: Rel
    condition: Scalar | None
    lateral: bool
    fields: tuple[Field, ...]


class Aggregate(Struct, frozen=True, kw_only=True):
    """Groups by `keys` and computes `calls`. `fields` are the keys' columns then the calls' columns.

    `grouping_sets`, when not None, lists sets of indexes into `keys` (a key absent from a set is NULL there);
    `grouping_fields` are GROUPING() results: pairs (field id, indexes into keys), appended to `fields` last.
    Without keys and grouping sets there is exactly one output row.
    """

    input: Rel
    keys: tuple[Scalar, ...]
    calls: tuple[AggregateCall, ...]
    fields: tuple[Field, ...]
    grouping_sets: tuple[tuple[int, ...], ...] | None = None
    groupings: tuple[tuple[int, ...], ...] = ()


class Window(Struct, frozen=True, kw_only=True):
    """Computes `calls` over the input's rows, `in_order` as they come; `fields`: the input's, then one for a call."""

    input: Rel
    calls: tuple[WindowCall, ...]
    fields: tuple[Field, ...]
    in_order: bool = False


class Deduplicate(Struct, frozen=True, kw_only=True):
    """DISTINCT (`on` empty: all columns) or DISTINCT ON (`on`: keep the first row by `order_by` of each group)."""

    input: Rel
    on: tuple[Scalar, ...]
    order_by: tuple[SortKey, ...]
    fields: tuple[Field, ...]


class Sort(Struct, frozen=True, kw_only=True):
    """The input in order."""

    input: Rel
    keys: tuple[SortKey, ...]
    fields: tuple[Field, ...]


class Limit(Struct, frozen=True, kw_only=True):
    """At most `count` rows (None: all; int8 expression; NULL: all) after skipping `offset`. Keeps its input's
    order. With `ties`, also the peers of the last row, by the keys of the `Sort` that is its input."""

    input: Rel
    count: Scalar | None
    offset: Scalar | None
    ties: bool
    fields: tuple[Field, ...]


class LockRows(Struct, frozen=True, kw_only=True):
    """The input's rows in order, each locked (FOR UPDATE and its like) before it is handed on, by `marks`; `count` and
    `offset` as of `Limit`, over those that could be. `fields` are the input's. The adapter carries it out."""

    input: Rel
    marks: tuple[RowMark, ...]
    count: Scalar | None
    offset: Scalar | None
    fields: tuple[Field, ...]


class SetOperation(Struct, frozen=True, kw_only=True):
    """UNION, INTERSECT, EXCEPT by place, of the same types. Columns at the places `by` tell rows apart (None: all)."""

    op: OneOf["union", "intersect", "except"]
    all: bool
    left: Rel
    right: Rel
    fields: tuple[Field, ...]
    by: tuple[int, ...] | None = None


class CommonTable(Struct, frozen=True, kw_only=True):
    """A CTE. When `recursive`, `rel` is the non-recursive term, `step` the recursive one (which reads `CteScan` of this
    id) and `union_all` tells whether duplicates stay."""

    id: int
    name: str
    rel: Rel
    step: Rel | None = None
    union_all: bool = True
    materialized: bool | None = None


class With(Struct, frozen=True, kw_only=True):
    """`body` with common tables in scope; later ones may read earlier ones."""

    tables: tuple[CommonTable, ...]
    body: Rel
    fields: tuple[Field, ...]


class CteScan(Struct, frozen=True, kw_only=True):
    """Reads the common table `cte`: output column i is its column i."""

    cte: int
    fields: tuple[Field, ...]


RETURNING_ROWS = -1
"""The `CteScan.cte` through which a RETURNING list reads the affected rows; the adapter binds it to those at hand."""


Rel: TypeAlias = (
    OneRow
    | Scan
    | SystemScan
    | Values
    | FunctionScan
    | Project
    | ProjectSet
    | Filter
    | Join
    | Aggregate
    | Window
    | Deduplicate
    | Sort
    | Limit
    | LockRows
    | SetOperation
    | With
    | CteScan
)
