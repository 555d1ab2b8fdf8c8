"""What one binding carries along: the context from the session, the statement's state, and the query levels.

A `Statement` hands out field ids, types the parameters, and remembers where in the text each scalar came from. A
`Level` is one SELECT (or DML statement): its FROM items, its common tables, and the aggregates, window functions and
set-returning functions found in its expressions, which stand there as references to columns yet to be computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from planner.common_errors import Held, missing_parameter
from planner.errors import AmbiguousParameter, IndeterminateDatatype, SqlError
from planner.ir.bound import Arguments, BoundStatement, WithStep
from planner.ir.file_rows import FileRequest, FileTable, ForeignRead
from planner.ir.nodes import (
    AggregateCall,
    ColumnRef,
    CommonTable,
    Field,
    FunctionCall,
    Let,
    LetValue,
    Origin,
    Param,
    Rel,
    Scalar,
    Subscript,
)
from planner.ir.past_rows import NO_PAST, PastTable, PastTables
from planner.ir.rewrite import is_volatile
from planner.ir.written import Form
from planner.resolution.required import Requirements
from planner.syntax.parse import Parsed, Tree
from planner.types.system_relations import SystemRelations
from planner.types.type_names import UnknownName, format_type, resolve_type_name
from planner.types.types import UNKNOWN, SqlType, column_type, declared_type
from storage.catalog.access import Policy
from storage.catalog.model import CatalogSnapshot, DomainType, Relation
from storage.catalog.record import holds_temporary
from storage.catalog.routines import Function

_T = TypeVar("_T")


class BindContext(Struct, frozen=True, kw_only=True):
    """What binding depends on besides the text. `search_path` holds schema names as `current_schemas(true)` lists
    them: pg_catalog is searched first when it is not mentioned. `settings` are TimeZone, DateStyle, IntervalStyle and
    the like, which decide what literals mean. `arguments` are those of the function whose statement it is. `files`:
    what was found, or what went wrong, when the files that the statement reads were looked up."""

    catalog: CatalogSnapshot
    search_path: tuple[str, ...]
    settings: Mapping[str, str]
    user: str
    database: str
    system_relations: SystemRelations
    arguments: Arguments | None = None
    expanded: frozenset[int] = frozenset()
    """Materialized views (oids) in whose place their queries are bound."""
    numbered: int | None = None
    """The relation (oid) that offers its row ids, as a column ``_row_id``."""
    files: Mapping[FileRequest, FileTable | SqlError] = field(default_factory=dict)
    past: PastTables = NO_PAST
    """What was found when the tables were looked up that the statement reads as they were."""
    policies: Callable[[Relation, int | None], tuple[Policy, ...] | None] | None = None
    """The policies of a table that a role (None: the current one) is subject to; None where it is subject to none.
    Raises 42501 where row_security is off. Without it there are none."""
    closed_schemas: frozenset[str] = frozenset()
    """The schemas on which the current role has no USAGE. They are not in `search_path`."""
    held: Held = Held.DECIMALS
    """See `TypeScope.held`."""

    def searched_schemas(self) -> tuple[str, ...]:
        """The schemas in which an unqualified name is looked up, in order."""
        if "pg_catalog" in self.search_path:
            return self.search_path
        return ("pg_catalog", *self.search_path)

    def called_schemas(self) -> tuple[str, ...]:
        """The schemas in which the unqualified name of a function is looked up, in order."""
        return tuple([schema for schema in self.searched_schemas() if not holds_temporary(schema)])


class NsColumn:
    """A column that a FROM item offers: what it is called and the scalar it stands for, made from `field` when first
    asked for (most columns of a wide table never are)."""

    __slots__ = ("_expr", "field", "name")

    def __init__(self, name: str, expr: Scalar | None = None, field: Field | None = None) -> None:
        self.name = name
        self.field = field
        self._expr = expr

    @property
    def expr(self) -> Scalar:
        """The scalar."""
        if self._expr is None:
            assert self.field is not None
            self._expr = ColumnRef(id=self.field.id, type=self.field.type)
        return self._expr


class NsItem(Struct, kw_only=True):
    """A FROM item in scope. `alias` is what qualifies its columns (None for an unnamed join). `schema` qualifies a
    relation that is not `aliased`, whose own name is `relation_name`. The flags are those of PostgreSQL's
    ParseNamespaceItem; `changed` marks what an UPDATE or DELETE changes. `row_type` is the composite type of a
    function's rows, or 0. `scalar_function` marks an item with one column of a scalar type whose whole-row reference is
    that column; `nullable` one whose rows an outer join in the FROM of `of` may lack. `rel` is what it reads, unless it
    is a join; `joined` marks one with a name; `source` has its rows; `presence` tells a row from a lack of one."""

    alias: str | None
    columns: list[NsColumn]
    rel: Rel | None = None
    schema: str | None = None
    relation_name: str | None = None
    relation_oid: int = 0
    aliased: bool = False
    system_columns: Mapping[str, Scalar] = field(default_factory=dict)
    rel_visible: bool = True
    cols_visible: bool = True
    lateral_only: bool = False
    lateral_ok: bool = True
    changed: bool = False
    scalar_function: bool = False
    nullable: bool = False
    joined: bool = False
    row_type: int = 0
    source: Rel | None = None
    of: Level | None = None
    presence: Field | None = None
    _by_name: dict[str, list[NsColumn]] | None = None

    @property
    def by_name(self) -> dict[str, list[NsColumn]]:
        """The columns by name; a join may offer several of one name."""
        if self._by_name is None:
            self._by_name = {}
            for column in self.columns:
                self._by_name.setdefault(column.name, []).append(column)
        return self._by_name


class Analyzed(Protocol):
    """A query after analysis. `types[i]` may be unknown; `coerce_column` then gives it one."""

    level: Level

    @property
    def names(self) -> list[str]: ...

    @property
    def types(self) -> list[SqlType]: ...

    def origins(self) -> list[Origin | None]: ...

    def column_expr(self, index: int) -> Scalar | None: ...

    def set_column(self, index: int, expr: Scalar) -> None: ...

    def build(self) -> Rel: ...


Handler: TypeAlias = Callable[["Level", Tree], Scalar]
"""What binds the expressions of one kind of parse node."""


class Grammar(Struct, frozen=True, kw_only=True):
    """How each expression (by kind of node) and each query is bound. Expressions hold queries and queries hold
    expressions: their modules reach each other through this table, which `planner.queries.grammar` makes."""

    expressions: Mapping[str, Handler]
    query: Callable[[Level, Tree], Analyzed]
    domain_check: Callable[[Statement, DomainType, str, Scalar], Scalar]
    """What a check of a domain, by its text, says of a value."""
    policy: Callable[[Statement, Relation, str, Sequence[Field]], Scalar]
    """What a policy's expression, by its text, says of a row of the table with these fields."""
    field_function: Callable[[Level, str, Scalar, Tree, int, int], Scalar | None]
    """What the function with this name says of a value, written as a step of a tree; None where there is none."""


class Level:
    """One query level. `clause` is what is being bound now, for the rules on where aggregates and the like may stand
    (None: a place that allows no special things and has no name). `reads_itself`: its FROM has the recursive query
    that it is a term of."""

    __slots__ = (
        "aggregates", "calls_once", "clause", "ctes", "from_ids", "grouping_refs", "lateral_active", "namespace",
        "parent", "presences", "reads_itself", "references", "rtes", "srf_barrier", "srf_depth", "srf_locations",
        "srfs", "statement", "takes_parameters", "window_definitions", "windows",
    )  # fmt: skip

    def __init__(self, statement: Statement, parent: Level | None) -> None:
        self.statement = statement
        self.parent = parent
        self.namespace: list[NsItem] = []
        self.rtes: list[NsItem] = []
        self.ctes: dict[str, Any] = {}
        self.clause: str | None = None
        self.takes_parameters = False
        """Whether parameters may stand even in clauses of definitions: in a conflict target."""
        self.lateral_active = False
        self.calls_once = False  # Whether its select list is evaluated for one row, whatever tables hold.
        self.reads_itself = False
        self.from_ids: dict[int, tuple[str | None, str]] = {}
        self.references: list[int] = []
        self.presences: list[tuple[Rel, Field]] | None = None
        """What of its FROM gets a column that is true, which a row that an outer join lacks has not; None where there
        can be no such column."""
        self.aggregates: list[tuple[AggregateCall, Field]] = []
        self.windows: list[tuple[Any, Field]] = []
        self.window_definitions: dict[str, Any] = {}
        self.srfs: list[FunctionCall] = []
        self.srf_depth: list[int] = []
        self.srf_locations: list[int] = []
        self.srf_barrier: str | None = None
        self.grouping_refs: list[tuple[tuple[Scalar, ...], Field, int, bool]] = []

    def own(self, id: int, alias: str | None, name: str) -> None:
        """Records that field `id` is a column of this level's FROM."""
        self.from_ids[id] = (alias, name)
        self.statement.owner[id] = self

    def own_all(self, fields: Sequence[Field], alias: str | None, names: Sequence[str]) -> None:
        """`own` for all columns of a relation."""
        owner, from_ids = self.statement.owner, self.from_ids
        for item, name in zip(fields, names, strict=True):
            owner[item.id] = self
            from_ids[item.id] = (alias, name)


class DefinitionNotes(Struct):
    """What writing out a view's query needs: for each SELECT the columns, as targets, of the stars in its target
    list, the unqualified column references with what qualifies them, and the NATURAL joins with their columns."""

    stars: list[tuple[Any, dict[int, list[Any]]]] = field(default_factory=list)
    rows: list[tuple[Any, dict[int, list[tuple[str, str]]]]] = field(default_factory=list)
    """For each SELECT the fields (name, lasting name) that the stars behind rows, ``(row).*``, stand for."""
    unqualified: list[tuple[Any, str]] = field(default_factory=list)
    named: list[tuple[Tree, NsItem]] = field(default_factory=list)  # References to columns, with whose these are.
    natural: list[tuple[Any, list[str]]] = field(default_factory=list)
    enum_values: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By tree location: the constants of enums, as position and the oid of the type's record."""
    objects: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By tree location: the constants that name objects (regclass and the like), as oid of the type and of the
    object."""
    functions: list[tuple[Any, int]] = field(default_factory=list)
    """The calls (FuncCall) of functions of users, with the oids of these."""
    field_calls: list[tuple[Tree, int, Tree]] = field(default_factory=list)
    """The steps (a ColumnRef, or an A_Indirection with the number of the step) that are calls (FuncCall)."""
    fields: list[tuple[Any, str]] = field(default_factory=list)
    """The selections of fields of composite types (the step of an A_Indirection), with the fields' lasting names."""
    operators: list[tuple[Any, int]] = field(default_factory=list)
    """The expressions (A_Expr, SubLink) with an operator of an extension, with the oid of the type's record."""
    sequences: set[int] = field(default_factory=set)
    """The sequences that are read as tables."""


class SearchedTable(Struct, frozen=True):
    """A common table with SEARCH or CYCLE as it is written: its terms, and the marks of CYCLE."""

    tree: Tree
    base: Rel
    step: Analyzed
    marks: Sequence[Scalar]


class PartNotes(Struct):
    """A part of a column that is given a value: the fields (by name) and elements that lead to it, and the value."""

    tree: Tree
    steps: list[str | Subscript] = field(default_factory=list)
    value: Scalar | None = None


class Assigned(Struct, frozen=True):
    """What an item of SET gives to columns, each with its tree (ResTarget): a value; to several together the row of the
    query whose first column is `value`."""

    columns: list[tuple[str, Tree]]
    value: Scalar
    of_query: bool = False


class ChangeNotes(Struct):
    """What a change of rows was bound as, or a clause of one that has conditions or values of its own: ON CONFLICT, its
    target, WHEN."""

    tree: Tree
    level: Level | None = None
    items: list[NsItem] = field(default_factory=list)
    """What stands for the row that is changed."""
    excluded: NsItem | None = None
    columns: list[tuple[str, Tree | None]] = field(default_factory=list)
    """Those that an INSERT gives values to, with their trees (ResTarget) where it lists them."""
    rows: Sequence[Sequence[Scalar]] = ()
    query: tuple[Analyzed, Tree] | None = None
    """Where the rows of an INSERT come from."""
    assigned: list[Assigned] = field(default_factory=list)
    where: Scalar | None = None
    elements: list[tuple[Tree, Scalar]] = field(default_factory=list)
    """Of the target of ON CONFLICT, with their trees (IndexElem)."""
    returning: tuple[Level, Sequence[tuple[str, Scalar]]] | None = None


class QueryNotes(Struct):
    """What the parts of a query were bound as, for who prints it: each by the identity of what it is noted for, which
    the entry keeps alive."""

    queries: dict[int, tuple[Rel, Analyzed, Tree]] = field(default_factory=dict)
    """By the relation that a query became, also the recursive term of a common table."""
    items: dict[int, tuple[Tree, NsItem]] = field(default_factory=dict)
    """By their trees: the items of FROM, joins only where they have a name."""
    joins: dict[int, tuple[Tree, Scalar | None, Sequence[str]]] = field(default_factory=dict)
    """By their trees: the condition of each join, and the columns that USING or NATURAL merge."""
    merged: dict[int, tuple[Tree, NsItem]] = field(default_factory=dict)  # By joins: what qualifies merged columns.
    functions: dict[int, tuple[Tree, Sequence[Any]]] = field(default_factory=dict)
    """By their trees (RangeFunction): what was called."""
    searched: dict[int, SearchedTable] = field(default_factory=dict)
    """By their trees: common tables with SEARCH or CYCLE."""
    windows: dict[int, tuple[Tree, Any]] = field(default_factory=dict)
    """By their trees: the definitions of windows."""
    tables: dict[int, tuple[Tree, Sequence[CommonTable | WithStep]]] = field(default_factory=dict)
    """By their trees: the common tables of each WITH."""
    changes: dict[int, ChangeNotes] = field(default_factory=dict)
    """By their trees: changes of rows, and clauses of these."""
    parts: dict[int, PartNotes] = field(default_factory=dict)
    """By their trees (ResTarget): parts of columns that are given values."""

    def change(self, tree: Tree) -> ChangeNotes:
        """What is noted for a change of rows, or a clause of one."""
        return self.changes.setdefault(id(tree), ChangeNotes(tree))


class WithChanges(Struct, kw_only=True):
    """The outermost WITH of a statement, if it changes rows. `bind` binds the query of a common table that does so.
    `items` are its common tables (`ir.CommonTable`, `bound.WithStep`) in an order in which each needs earlier ones
    only; none as long as it changes nothing. `bound_inside`: what is being bound is one of them, so not all parameters
    are known."""

    bind: Callable[[Level, Tree], BoundStatement]
    items: list[CommonTable | WithStep] = field(default_factory=list)
    bound_inside: bool = False


class TakesLong(Exception):
    """Binding a statement at once would take longer than was allowed for."""


VIEW_WEIGHT = 32
"""Binding a view takes as long as so many columns of a table: its text is parsed."""


class Statement:
    """The state of binding one statement."""

    def __init__(self, parsed: Parsed, context: BindContext, grammar: Grammar, declared: Iterable[int] = ()) -> None:
        self.parsed = parsed
        self.context = context
        self.grammar = grammar
        self.next_id = 1
        self.next_cte = 1
        self.owner: dict[int, Level] = {}
        self.origins: dict[int, Origin] = {}
        self.positions: dict[int, tuple[Any, int]] = {}
        self.row_parts: dict[int, Any] = {}
        """The columns in whole rows, by their `id`."""
        self.untyped: dict[int, Scalar] = {}
        self.aggregate_owner: dict[int, Level] = {}
        self.window_owner: dict[int, Level] = {}
        self.records: dict[int, tuple[Any, tuple[tuple[str, SqlType], ...]]] = {}
        self.definition: DefinitionNotes | None = None
        self.record_columns: dict[int, tuple[tuple[str, SqlType], ...]] = {}
        self.sorted_by: dict[int, ColumnRef] = {}
        """By which column an array of records is ordered, by the id of its field."""
        self.param_types: dict[int, SqlType] = {
            number: SqlType(UNKNOWN) if oid in (0, UNKNOWN) else declared_type(oid)
            for number, oid in enumerate(declared, 1)
        }
        self.param_domains: dict[int, int] = {}
        """The domains that parameters are of by where they stand; their values are of what is under these."""
        self.relations: set[int] = set()
        self.functions: set[int] = set()
        """The functions of users that it calls, also inside of these."""
        self.needs_keys: set[int] = set()
        """The primary keys by which columns that are not grouped are the same in each group."""
        self.files: dict[int, FileTable] = {}
        """The rows of files that it reads, by the id of their `CteScan`."""
        self.foreign: dict[int, ForeignRead] = {}
        """The foreign tables that it reads, by the same."""
        self.past: dict[int, PastTable] = {}
        """The tables that it reads as they were, by the id of their `Scan` or `CteScan`."""
        self.read_inside: set[int] = set()
        """The relations that bodies of functions read."""
        self.arguments = context.arguments
        self.expanding: tuple[int, ...] = ()
        """The functions whose bodies are being bound, outermost first."""
        self.required = Requirements()
        self.subjects: dict[int, Any] = {}
        """By the id of a scan's first field: `row_security.Subject` of who reads it."""
        self.has_barriers = False
        """Whether it has any of `planner.ir.barriers`."""
        self.securing: tuple[int, ...] = ()
        """The tables whose policies are being bound, outermost first."""
        self.system = False
        self.volatile = False
        self.locking: str | None = None
        """The first clause that locks rows, as messages name it."""
        self.view_depth = 0
        self.outlined = False
        """Whether views are bound by their columns alone, for who asks what a query gives and not how."""
        self.weight = 0
        self.most_weight: int | None = None
        """How many columns of tables may be bound, each view for `VIEW_WEIGHT`; more raise TakesLong. None: as many as
        there are."""
        self.merge_action: Scalar | None = None
        """What merge_action() is, where it may stand."""
        self.with_changes: WithChanges | None = None
        """What WITH changes, where it may."""
        self.written: dict[int, tuple[Any, Form]] | None = None
        """How scalars (by identity, which an entry keeps alive) were written, for who prints what is bound; None when
        nobody does."""
        self.notes: QueryNotes | None = None
        """What queries were bound as; None when nobody prints one."""
        self.reads_stored = False
        """Whether the text is one that was printed of a bound expression: there ``(ARRAY[...])::type[]`` converts an
        array, while a cast that somebody writes so goes to the elements."""

    @property
    def binds_stored(self) -> bool:
        """Whether what is being bound is a text that the catalog keeps: it was valid when it was written."""
        return self.view_depth > 0 and self.arguments is None

    @property
    def is_shown(self) -> bool:
        """Whether a stored query is bound to be printed or to tell what it names: calls of functions stay calls there,
        whose bodies may need names that only the caller's search path finds."""
        return self.written is not None and self.notes is not None

    def weigh(self, weight: int) -> None:
        """So much is about to be bound. Raises TakesLong."""
        self.weight += weight
        if self.most_weight is not None and self.weight > self.most_weight:
            raise TakesLong

    def is_leakproof(self, function: int) -> bool:
        """Whether a function of a user is LEAKPROOF."""
        record = self.context.catalog.get(function)
        return isinstance(record, Function) and record.leakproof

    def written_as(self, scalar: _T, form: Form) -> _T:
        """Remembers that `scalar` is to be printed as `form`, if anybody prints; returns it."""
        if self.written is not None:
            self.written[id(scalar)] = (scalar, form)
        return scalar

    def new_id(self) -> int:
        """A fresh id, of a field or of a held value."""
        id = self.next_id
        self.next_id = id + 1
        return id

    def new_field(self, name: str, type: SqlType, origin: Origin | None = None) -> Field:
        """A field with a fresh id."""
        id = self.next_id
        self.next_id = id + 1
        if origin is not None:
            self.origins[id] = origin
        return Field(id=id, name=name, type=type, origin=origin)

    def new_fields(self, columns: Sequence[tuple[str, SqlType, Origin]]) -> list[Field]:
        """Fields with fresh ids for the columns (name, type, origin) of a relation."""
        self.weigh(len(columns))
        first = self.next_id
        self.next_id = first + len(columns)
        origins = self.origins
        fields = []
        for id, (name, type, origin) in enumerate(columns, first):
            origins[id] = origin
            fields.append(Field(id=id, name=name, type=type, origin=origin))
        return fields

    def once(self, value: Scalar) -> tuple[Scalar, Callable[[Scalar], Scalar]]:
        """What stands for `value` in a construct that needs it more than once, and what to make of that construct."""
        if not is_volatile(value):
            return value, lambda body: body
        id = self.new_id()
        stand_in = self.at(LetValue(id=id, type=value.type), self.location(value))
        return stand_in, lambda body: Let(id=id, value=value, body=body, type=body.type)

    # ---- positions

    def at(self, scalar: _T, location: int) -> _T:
        """Remembers that `scalar` comes from the tree location `location` (-1: unknown); returns it."""
        if location >= 0:
            self.positions[id(scalar)] = (scalar, location)
        return scalar

    def location(self, scalar: Any) -> int:
        """The tree location of a scalar, -1 when it is unknown."""
        found = self.positions.get(id(scalar))
        return found[1] if found is not None else -1

    def position(self, location: int) -> int | None:
        """A tree location as an error position; inside a view's text there is none."""
        return self.parsed.position(location) if self.view_depth == 0 else None

    def position_of(self, scalar: Any) -> int | None:
        """The error position of a scalar."""
        return self.position(self.location(scalar))

    # ---- types

    def type_named(self, node: Tree) -> SqlType:
        """The type that a TypeName node means. Raises 42704, and 3F000 for a schema that does not exist."""
        try:
            return resolve_type_name(node, self.parsed, located=self.view_depth == 0)
        except UnknownName as error:
            raise error.judged(self.context.catalog, self.context.database) from None

    # ---- parameters

    def param(self, number: int, location: int) -> Scalar:
        """`$number`. Its type may still be unknown."""
        if self.arguments is not None:
            if not 1 <= number <= len(self.arguments.values):
                raise missing_parameter(number, self.position(location))
            return self.occurrence(self.arguments.values[number - 1], location)
        if self.view_depth:
            raise missing_parameter(number)
        if not 1 <= number <= 65535:
            raise missing_parameter(number, self.position(location))
        type = self.param_types.get(number)
        if type is None:
            type = self.param_types[number] = SqlType(UNKNOWN)
        result: Scalar = self.at(Param(index=number, type=type), location)
        if type.oid == UNKNOWN:
            self.untyped[id(result)] = result
        return result

    def set_param_type(self, param: Param, type: SqlType) -> Param:
        """Gives a parameter of unknown type the type that its use demands (variable_coerce_param_hook).

        Raises 42P08 when another use demanded another type.
        """
        self.untyped.pop(id(param), None)
        known = self.param_types[param.index]
        wanted = column_type(type.oid)
        location = self.location(param)
        if known.oid == UNKNOWN:
            self.note_domain(param, type)
            self.param_types[param.index] = wanted
        elif known.oid != type.oid:
            raise AmbiguousParameter(
                f"inconsistent types deduced for parameter ${param.index}",
                detail=f"{format_type(known.oid)} versus {format_type(type.oid)}",
                position=self.position(location),
            )
        result: Param = self.at(replace(param, type=self.param_types[param.index]), location)
        return result

    def note_domain(self, param: Param, type: SqlType) -> None:
        """Lets a parameter that is of no type yet be of the domain, if `type` is one, where it is described."""
        known = self.param_types.get(param.index)
        # None for an argument of a function.
        if type.domain and known is not None and known.oid == UNKNOWN:
            self.param_domains[param.index] = type.domain

    def occurrence(self, argument: Scalar, location: int) -> Scalar:
        """A fresh occurrence of an argument of the function whose body is being bound."""
        fresh: Scalar = replace(argument)
        return self.at(fresh, location)

    def final_param_types(self) -> tuple[SqlType, ...]:
        """The types of all parameters.

        Raises 42P18 for one whose type nothing decides or that is left out, 42P08 for one that stands in a place
        which says no type though another place does.
        """
        if not self.param_types:
            return ()
        result = []
        for number in range(1, max(self.param_types) + 1):
            type = self.param_types.get(number)
            if type is None or type.oid == UNKNOWN:
                raise IndeterminateDatatype(f"could not determine data type of parameter ${number}")
            domain = self.param_domains.get(number)
            result.append(type if domain is None else replace(type, domain=domain))
        for param in self.untyped.values():
            assert isinstance(param, Param)
            raise AmbiguousParameter(
                f"could not determine data type of parameter ${param.index}", position=self.position_of(param)
            )
        return tuple(result)
