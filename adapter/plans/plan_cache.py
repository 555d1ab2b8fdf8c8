"""Plans: a statement bound against one catalog snapshot, with what running it needs; cached by text.

A plan is valid for the catalog value, search path and settings that it was bound with. The cache is shared by all
sessions of a server process and holds the most recently used plans.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import zip_longest
from types import MappingProxyType
from typing import ParamSpec, TypeGuard, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from adapter.access.looking_back import policies_since
from adapter.access.privileges import denial
from adapter.plans.computed.folded_constants import FoldedConstants, folded_constants
from adapter.plans.computed.row_values import GIVEN
from adapter.plans.key_reads import KeyRead, key_read_of
from adapter.plans.operands import Operands, operands_of
from adapter.plans.predicates import ScanTemplate, scan_templates
from adapter.results import ColumnDescription
from adapter.system_catalogs.functions.reg_columns import has_reg_columns
from adapter.system_catalogs.relations.extent_columns import reads_extents
from adapter.threads import Workers
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import Mode
from adapter.transactions.locks.tags import Tag
from planner.analyze import AnyStatement, BindContext, analyze, command_tag
from planner.calls.record_shapes import shapes_of
from planner.common_errors import Held
from planner.definitions.routines import bind_call
from planner.errors import IndeterminateDatatype, InsufficientPrivilege
from planner.ir import nodes as ir
from planner.ir.array_value import has_nan
from planner.ir.bound import (
    WITH_ROWS,
    BoundChange,
    BoundDelete,
    BoundInsert,
    BoundMerge,
    BoundQuery,
    BoundStatement,
    BoundUpdate,
    BoundWith,
)
from planner.ir.required import Required
from planner.ir.rewrite import walk
from planner.resolution.session_values import acts
from planner.statements import foreign as ft
from planner.statements import records as st
from planner.syntax.dialects.reading import Reading, read
from planner.syntax.extensions import parse_statements
from planner.syntax.parse import BRIEF_TEXT_CHARS, LONG_TEXT_CHARS, Parsed, parameters
from planner.types import types as t
from planner.types.numeric_shapes import INTEGER_DIGITS, fits, has_room
from planner.types.types import DATE, TIMESTAMP, TIMESTAMPTZ, SqlType
from storage.bounded_map import BoundedMap
from storage.cache_memory import aging, watched
from storage.catalog.model import CatalogRecord, CatalogSnapshot, Relation

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

MAX_THREADS = 4
"""Large statements that are parsed and planned at once; others wait. Each takes time from the event loop."""

MANY_CONSTRAINTS = 50
"""So many checks are bound in 2 to 3 ms."""

AT_ONCE_WEIGHT = 400
"""Columns of tables that are bound on the event loop, a view for `VIEW_WEIGHT` of them: in 2 to 3 ms."""

MAX_PLANS = 1000
"""Plans kept: the distinct statements of a busy application, a few KiB each."""

PLAN_SETTINGS = (
    "TimeZone", "DateStyle", "IntervalStyle", "extra_float_digits", "bytea_output", "xmloption", "row_security",
)  # fmt: skip
"""Settings that binding depends on (constants are read with them)."""

SIZE_FUNCTIONS = frozenset({
    "pg_relation_size", "pg_table_size", "pg_indexes_size", "pg_total_relation_size", "pg_database_size",
})  # fmt: skip
"""Functions for which the sizes of tables have to be at hand."""

WITHOUT_CATALOG = frozenset({
    "transaction_stmt", "variable_set_stmt", "variable_show_stmt", "discard_stmt", "deallocate_stmt", "listen_stmt",
    "execute_stmt", "unlisten_stmt", "notify_stmt", "fetch_stmt", "close_portal_stmt", "checkpoint_stmt",
})  # fmt: skip
"""Statements that name nothing of the catalog: they need not know the newest one."""

_DEFINITIONS = (
    st.CreateTable, st.CreateTableAs, st.CreateView, st.Truncate, st.AlterTable, st.RenameColumn, st.RenameRelation,
    st.SetSchemaOptions,
    st.SetSchema, st.Drop, st.CreateSchema, st.RenameObject, st.AlterOwner, st.Comment, st.CreateSequence,
    st.AlterSequence, st.CreateIndex, st.CreateRole, st.AlterRole, st.DropRole, st.CreateDatabase, st.DropDatabase,
    st.CreatePolicy, st.AlterPolicy, st.AlterGroup, st.GrantRole, st.ReassignOwned, st.DropOwned,
    st.AlterDatabase, st.RefreshCollation,
    st.CreateExtension, st.CloneTable, st.UndropTable,
    st.AlterExtension,
    st.AlterSetting, st.AlterSystem,
    st.CreateEnum, st.CreateRange, st.CreateComposite, st.AddEnumValue, st.RenameEnumValue,
    st.ChangeTypeOwner,
    st.CreateDomain, st.SetDomainDefault, st.SetDomainNotNull, st.AddDomainCheck, st.ValidateDomainCheck,
    st.DropDomainCheck,
    st.CreateRoutine, st.AlterRoutine, st.Grant, st.AlterDefaultPrivileges,
    ft.CreateServer, ft.AlterServer, ft.CreateUserMapping, ft.AlterUserMapping, ft.DropUserMapping,
    ft.CreateForeignTable, ft.ImportForeignSchema,
)  # fmt: skip


class Plan(Struct, frozen=True, kw_only=True):
    """A bound statement. `query` is the relational part that engines run, where there is one; `session_values`, `acts`
    and `sizes` tell what has to be filled in before, `locks` what is locked first."""

    parsed: Parsed
    statement: AnyStatement
    catalog: CatalogSnapshot
    search_path: tuple[str, ...]
    query: BoundQuery | None
    param_types: tuple[SqlType, ...]
    columns: tuple[ColumnDescription, ...] | None
    reg_columns: bool
    """Whether any of `columns` is of an oid alias type, whose names clients read beside the numbers."""
    templates: tuple[ScanTemplate, ...]
    relied_on: tuple[CatalogRecord, ...]
    locks: tuple[tuple[Tag, Mode], ...]
    session_values: frozenset[str]
    acts: bool
    sizes: bool
    tag: str
    reads: bool
    """Whether running it reads rows, or definitions that binding it did not."""
    reads_kept: bool = False
    """Whether it may read a materialized view that is refreshed on commit: itself, in a function, or in a statement
    inside."""
    unpopulated: str | None = None
    """The name of a materialized view that its query reads and that has no rows to be read yet."""
    denied: str | None = None
    """Why the role that it was made for may not run it; None when it may."""
    required: tuple[Required, ...] = ()
    """What the role needs to be allowed for it."""
    has_many_checks: bool = False
    """Whether a table that it is about has so many constraints that binding them takes long."""
    given: Mapping[int, frozenset[int]] = MappingProxyType({})
    """The columns (attnums) that it gives values to, by the oid of their table."""
    operands: Operands | None = None
    """What is worked out before each execution of `query`, which then runs as they have it. Of another query they are
    not used."""
    key_read: KeyRead | None = None
    """`query`, as `operands` have it, where it reads the rows of one key."""
    folded: FoldedConstants | None = None
    """Its constant parts that may fail: they are worked out before it."""
    meets: Held = Held.DECIMALS
    """What its query may need where it makes decimals: of what may be NaN or infinite, or of what may have more digits.
    Running it may raise NotHeld then."""
    steps: tuple[PlanStep, ...] = ()
    """What its WITH runs besides, when that changes rows; `statement` is then what the WITH is about."""

    def check_access(self) -> None:
        """42501 when the role that it was made for may not run it."""
        if self.denied is not None:
            raise InsufficientPrivilege(self.denied)


class PlanStep(Struct, frozen=True, kw_only=True):
    """A step of a data-modifying WITH, whose rows are read as `CteScan`s of `id`. `needs` are the ids of the steps that
    it reads itself."""

    id: int
    name: str
    plan: Plan
    needs: frozenset[int]


def steps_read(statement: object) -> frozenset[int]:
    """The ids of the steps of a data-modifying WITH that `statement` reads."""
    return frozenset(node.cte for node in walk(statement) if isinstance(node, ir.CteScan) and node.cte <= WITH_ROWS)


def _inner_param_types(statement: object, context: BindContext, declared: tuple[int, ...]) -> tuple[SqlType, ...]:
    """The parameters of a statement that has a query inside."""
    if isinstance(statement, st.RestoreTable):
        moment = statement.moment
        inner = analyze(moment, context, declared) if isinstance(moment, Parsed) else None
        return inner.param_types if isinstance(inner, BoundQuery) else ()
    if not isinstance(statement, (st.DeclareCursor, st.Explain, st.CreateTableAs)) or "$" not in statement.query.text:
        return ()
    own = declared if statement.query.extension is None else _told(declared, _numbers(statement.query))
    inner = analyze(statement.query, context, own)
    if isinstance(inner, BoundWith):
        inner = inner.body
    match inner:
        case BoundQuery():
            return inner.param_types
        case BoundInsert():
            return inner.source.param_types
        case BoundUpdate() | BoundDelete() | BoundMerge():
            return inner.read.param_types
        case _:
            return _inner_param_types(inner, context, declared)


def _numbers(parsed: Parsed) -> frozenset[int]:
    """The parameters that stand in a statement, what Tidegate's grammar adds to it left out."""
    if "$" not in parsed.text:
        return frozenset()
    return frozenset(node.number for node in parameters(parsed.tree))


def _told(declared: tuple[int, ...], numbers: frozenset[int]) -> tuple[int, ...]:
    """What was declared of parameters up to the last of `numbers`; of those of other parts of the statement, anything:
    their types are not asked for."""
    last = max(numbers, default=0)
    filled = (*declared, *[0] * (last - len(declared)))[:last]
    return tuple([oid if oid or number in numbers else t.TEXT for number, oid in enumerate(filled, 1)])


def _with_own_parameters(
    parsed: Parsed, known: tuple[SqlType, ...], context: BindContext, declared: tuple[int, ...]
) -> tuple[SqlType, ...]:
    """The parameters that are `known` of a statement, and those of its AS OF and of what it subscribes to."""
    extension = parsed.extension
    if extension is None or "$" not in parsed.text or parsed.kind == "prepare_stmt":
        return known
    types = {number: known[number - 1] for number in _numbers(parsed) if number <= len(known)}
    inside = [extension.as_of]
    if extension.subscription is not None:
        own = extension.subscription
        inside = [own.query, own.as_of, own.up_to]
    for each in inside:
        numbers = frozenset() if each is None else _numbers(each).difference(types)
        given = {number: declared[number - 1] for number in numbers if number <= len(declared)}
        if each is None or all(given.get(number) for number in numbers):
            # What is read of the past may be unknown today.
            types |= {number: SqlType(oid) for number, oid in given.items()}
            continue
        by_now = [types[number].oid if number in types else 0 for number in range(1, max(types, default=0) + 1)]
        oids = tuple([a or b for a, b in zip_longest(by_now, declared, fillvalue=0)])
        bound = analyze(each, context, _told(oids, _numbers(each)))
        if isinstance(bound, BoundQuery):
            types |= {number: bound.param_types[number - 1] for number in numbers}
    last = max(types, default=0)
    missing = next((number for number in range(1, last + 1) if number not in types), None)
    if missing is not None:
        if missing > len(declared) or not declared[missing - 1]:
            raise IndeterminateDatatype(f"could not determine data type of parameter ${missing}")
        types |= {number: SqlType(declared[number - 1]) for number in range(1, last + 1) if number not in types}
    return tuple([types[number] for number in range(1, last + 1)])


def _asked_and_called(query: BoundQuery | None) -> tuple[frozenset[str], frozenset[str], Held]:
    """The names of the session values and of the functions and operators anywhere in `query`, and what it may need
    where it makes decimals."""
    asked: set[str] = set()
    called: set[str] = set()
    meets = Held.DECIMALS
    for node in walk(query):
        if isinstance(node, (ir.Cast, ir.Literal)) and node.type.shape is not None and node.type.shape.exact_scale:
            if _may_be_nan(node):
                meets |= Held.NAN
            if isinstance(node, ir.Cast) and not fits(node.arg.type, node.type.shape):
                meets |= Held.LONG
        if isinstance(node, ir.Call):
            called.add(node.signature.name)
            if _may_be_infinite(node):
                meets |= Held.NAN
            if not has_room(node.signature, [arg.type for arg in node.args], node.type):
                meets |= Held.LONG
        elif isinstance(node, (ir.AggregateCall, ir.WindowCall)):
            if not has_room(node.signature, [arg.type for arg in node.args], node.type):
                meets |= Held.LONG
        elif isinstance(node, ir.SessionValue):
            asked.add(node.name)
    return frozenset(asked), frozenset(called), meets


def _may_be_infinite(call: ir.Call) -> bool:
    """Whether it is a part of a date or a timestamp that is held as a decimal and may be infinite."""
    shape = call.type.shape
    if call.signature.name != "extract" or shape is None or not shape.exact_scale:
        return False
    return call.args[1].type.oid in (DATE, TIMESTAMP, TIMESTAMPTZ)


def _may_be_nan(expr: ir.Cast | ir.Literal) -> bool:
    """Whether a decimal, or an array of such, is made of what may be NaN."""
    if isinstance(expr, ir.Cast):
        return expr.arg.type.oid not in INTEGER_DIGITS
    return has_nan(expr.value)


def has_acting_calls(node: object) -> bool:
    """Whether `node` calls a function that the adapter carries out."""
    return any(isinstance(inner, (ir.Call, ir.FunctionCall)) and acts(inner.signature) for inner in walk(node))


def _reads(
    query: BoundQuery, templates: tuple[ScanTemplate, ...], asked: frozenset[str], called: frozenset[str]
) -> bool:
    return bool(templates) or query.system or "current_snapshot" in asked or not called.isdisjoint(SIZE_FUNCTIONS)


def _holds_once(plan: Plan) -> bool:
    """Whether `plan` holds for the files, or for the moment, that were looked up when it was made, and no longer."""
    queries = [part.query for part in (plan, *(step.plan for step in plan.steps)) if part.query is not None]
    return plan.parsed.reads_past or any(query.files or query.past for query in queries)


def is_definition(statement: object) -> bool:
    """Whether `statement` changes definitions."""
    return isinstance(statement, _DEFINITIONS)


def describe_fields(fields: tuple[ir.Field, ...]) -> tuple[ColumnDescription, ...]:
    """The columns of a result with these fields."""
    return tuple(ColumnDescription(name=f.name, type=f.type, origin=f.origin) for f in fields)


def describe_query(rel: ir.Rel) -> tuple[ColumnDescription, ...]:
    """The columns of a query's result."""
    return tuple(
        ColumnDescription(name=field.name, type=field.type, origin=field.origin, shape=shape)
        for field, shape in zip(rel.fields, shapes_of(rel), strict=True)
    )


def make_plan(parsed: Parsed, context: BindContext, declared: tuple[int, ...], most_weight: int | None = None) -> Plan:
    """Bind `parsed`. Raises the binder's errors, and TakesLong for more than `most_weight`."""
    own = declared
    if parsed.extension is not None:
        own = _told(declared, _numbers(parsed))
    statement = analyze(parsed, context, own, most_weight)
    if not isinstance(statement, BoundWith):
        plan = _plan_of(parsed, statement, context, declared)
        return _checked(plan, context, statement.required) if isinstance(statement, BoundStatement) else plan
    body = _plan_of(parsed, statement.body, context, declared)
    steps = []
    for step in statement.steps:
        plan = _plan_of(parsed, step.statement, context, declared)
        steps.append(PlanStep(id=step.id, name=step.name, plan=plan, needs=steps_read(step.statement)))
    modes: dict[Tag, Mode] = {}
    for plan in (body, *(step.plan for step in steps)):
        for tag, mode in plan.locks:
            modes[tag] = max(mode, modes.get(tag, mode))
    records = {record.oid: record for plan in (body, *(step.plan for step in steps)) for record in plan.relied_on}
    whole = replace(
        body,
        reads_kept=True,
        relied_on=tuple(records.values()),
        locks=tuple(sorted(modes.items())),
        reads=True,
        steps=tuple(steps),
    )
    return _checked(whole, context, statement.required)


def _checked(plan: Plan, context: BindContext, required: tuple[Required, ...]) -> Plan:
    """`plan` with what it is denied for. The cache keeps plans by catalog and role, so that is found out once."""
    denied = denial(context.catalog, context.user, required, _functions(plan))
    if denied is None:
        denied = policies_since(context.catalog, context.user, required)
    given: dict[int, frozenset[int]] = {}
    for each in required:
        if each.inserted or each.updated:
            given[each.oid] = given.get(each.oid, frozenset()) | each.inserted | each.updated
    return replace(plan, denied=denied, required=required, given=given) if required or denied is not None else plan


def _functions(plan: Plan) -> Iterator[int]:
    """The oids of the functions that a statement calls, as far as they are built in."""
    for part in (plan, *(step.plan for step in plan.steps)):
        for node in walk(part.statement):
            if isinstance(node, (ir.Call, ir.FunctionCall)):
                yield node.signature.oid


def _plan_of(parsed: Parsed, statement: AnyStatement, context: BindContext, declared: tuple[int, ...]) -> Plan:
    query: BoundQuery | None = None
    columns: tuple[ColumnDescription, ...] | None = None
    written: tuple[int, ...] = ()
    match statement:
        case BoundQuery():
            query = statement
            columns = describe_query(query.rel)
        case BoundInsert():
            query, written = statement.complete or statement.source, (statement.relation_oid,)
        case BoundUpdate() | BoundDelete() | BoundMerge():
            query, written = statement.read, (statement.relation_oid,)
    param_types = query.param_types if query is not None else _inner_param_types(statement, context, declared)
    if isinstance(statement, st.CallProcedure):
        call = bind_call(statement.call, context, declared)
        statement = replace(statement, bound=call)
        columns, param_types = describe_fields(call.fields) or None, call.args.param_types
    param_types = _with_own_parameters(parsed, param_types, context, declared)
    if isinstance(statement, BoundChange) and statement.returning is not None:
        columns = describe_query(statement.returning.query.rel)
    oids = (*written, *((*query.relations, *query.functions) if query is not None else ()))
    catalog = context.catalog
    values, called, meets = _asked_and_called(query)
    templates = scan_templates(query.rel) if query is not None else ()
    is_acting = query is not None and has_acting_calls(query)
    reads = query is None or is_acting or _writes_files(statement) or _reads(query, templates, values, called)
    if not reads and isinstance(statement, BoundInsert) and statement.returning is not None:
        inner = statement.returning.query
        reads = _reads(inner, scan_templates(inner.rel), *_asked_and_called(inner)[:2])
    folded = folded_constants(statement) if isinstance(statement, BoundStatement) else None
    by_key = query is not None and not is_acting and folded is None
    operands = None if query is None or is_acting else operands_of(query)
    key_read = None
    if operands is not None and by_key:
        key_read = _key_read(operands.query, catalog, operands.templates, operands.session_values)
    elif query is not None and by_key:
        key_read = _key_read(query, catalog, templates, values)
    relied_on = tuple(record for oid in dict.fromkeys(oids) if (record := catalog.get(oid)) is not None)
    return Plan(
        parsed=parsed,
        statement=statement,
        catalog=catalog,
        search_path=context.search_path,
        query=query,
        param_types=param_types,
        columns=columns,
        reg_columns=has_reg_columns([column.type for column in columns or ()]),
        templates=templates,
        relied_on=relied_on,
        unpopulated=next((record.name for record in relied_on if _is_unpopulated(record)), None),
        reads_kept=query is None or bool(query.functions) or any(map(_is_kept_exact, relied_on)),
        locks=_locks(written, query),
        has_many_checks=any(isinstance(r, Relation) and len(r.constraints) > MANY_CONSTRAINTS for r in relied_on),
        session_values=values,
        acts=is_acting,
        sizes=not called.isdisjoint(SIZE_FUNCTIONS) or (query is not None and query.system and reads_extents(query)),
        tag=command_tag(statement),
        reads=reads,
        operands=operands,
        key_read=key_read,
        folded=folded,
        meets=meets,
    )


def _writes_files(statement: object) -> bool:
    """Whether what it does cannot be undone, so that it is not tried."""
    return isinstance(statement, BoundInsert) and statement.foreign


def _is_kept_exact(record: CatalogRecord) -> bool:
    how = record.materialized if isinstance(record, Relation) else None
    return how is not None and how.refresh == "on commit"


def _is_unpopulated(record: CatalogRecord) -> TypeGuard[Relation]:
    how = record.materialized if isinstance(record, Relation) else None
    return how is not None and not how.populated


def _key_read(
    query: BoundQuery, catalog: CatalogSnapshot, templates: tuple[ScanTemplate, ...], asked: frozenset[str]
) -> KeyRead | None:
    if len(templates) != 1 or query.system or query.volatile or query.locking is not None or not asked <= GIVEN:
        return None
    return key_read_of(query.rel, catalog)


def _locks(written: tuple[int, ...], query: BoundQuery | None) -> tuple[tuple[Tag, Mode], ...]:
    """What a change of the tables `written`, or a query, locks, in the order of oids."""
    modes: dict[int, Mode] = {}
    if query is not None:
        modes = dict.fromkeys(query.relations, Mode.ROW_SHARE if query.locking else Mode.ACCESS_SHARE)
    modes.update(dict.fromkeys(written, Mode.ROW_EXCLUSIVE))
    return tuple((tags.relation(oid), modes[oid]) for oid in sorted(modes))


def make_plan_at_once(parsed: Parsed, context: BindContext, declared: tuple[int, ...]) -> Plan:
    """`make_plan` on the event loop. Raises TakesLong for what is to be made on a thread."""
    return make_plan(parsed, context, declared, AT_ONCE_WEIGHT)


class _NotKnown(Exception):
    """There is no plan at hand."""


def _make_none(parsed: Parsed, context: BindContext, declared: tuple[int, ...]) -> Plan:
    raise _NotKnown


class PlanCache:
    """The plans of a server process. Belongs to the event loop."""

    def __init__(self) -> None:
        self._plans: BoundedMap[tuple[object, ...], Plan] = watched("plans", aging(BoundedMap(max_entries=MAX_PLANS)))
        self._parsed: BoundedMap[str, tuple[Parsed, ...]] = aging(BoundedMap(max_entries=MAX_PLANS))
        self._readings: BoundedMap[tuple[str, str], Reading] = aging(BoundedMap(max_entries=MAX_PLANS))
        self._threads = Workers(MAX_THREADS, "planner")

    @property
    def hits(self) -> int:
        """Plans that were at hand, of those looked for."""
        return self._plans.hits

    @property
    def misses(self) -> int:
        """Plans that had to be made."""
        return self._plans.misses

    def knows(self, text: str) -> bool:
        """Whether `parse` has the statements of this query string at hand."""
        return self._parsed.get(text) is not None

    async def parse(self, text: str) -> tuple[Parsed, ...]:
        """The statements of a query string, parsed on a thread unless it is brief. Raises 42601."""
        if len(text) > LONG_TEXT_CHARS:
            return await self.aside(parse_statements, text)
        known = self._parsed.get(text)
        if known is not None:
            self._parsed.touch(text)
            return known
        brief = len(text) <= BRIEF_TEXT_CHARS
        parsed = parse_statements(text) if brief else await self.aside(parse_statements, text)
        self._parsed.put(text, parsed)
        return parsed

    async def read(self, text: str, dialect: str) -> Reading:
        """A query string of another dialect as PostgreSQL's, worked out on a thread. Raises 42601 and 0A000."""
        key = (dialect, text)
        known = self._readings.get(key)
        if known is not None:
            self._readings.touch(key)
            return known
        reading = await self.aside(read, text, dialect)
        if len(text) <= LONG_TEXT_CHARS:
            self._readings.put(key, reading)
        return reading

    def plan(
        self,
        parsed: Parsed,
        context: BindContext,
        declared: tuple[int, ...],
        make: Callable[[Parsed, BindContext, tuple[int, ...]], Plan] = make_plan,
    ) -> Plan:
        """The plan of `parsed` in `context`, from the cache when it holds one that fits; otherwise `make` makes it."""
        settings: Mapping[str, str] = context.settings
        key = (
            parsed.text,
            parsed.start,
            parsed.kind,
            declared,
            context.search_path,
            context.user,
            context.database,
            context.expanded,
            context.held,
            *map(settings.get, PLAN_SETTINGS),
        )
        known = self._plans.get(key)
        if known is not None and known.catalog is context.catalog:
            self._plans.touch(key)
            self._plans.hits += 1
            return known
        self._plans.misses += 1
        plan = make(parsed, context, declared)
        if not parsed.is_long and not _holds_once(plan):
            self._plans.put(key, plan)
        return plan

    async def plan_aside(self, parsed: Parsed, context: BindContext, declared: tuple[int, ...]) -> Plan:
        """Like `plan`, with a new plan made on a thread."""
        try:
            return self.plan(parsed, context, declared, _make_none)
        except _NotKnown:
            made = await self.aside(make_plan, parsed, context, declared)
            return self.plan(parsed, context, declared, lambda *_: made)

    def aside(
        self, work: Callable[_Given, _Result], *given: _Given.args, **named: _Given.kwargs
    ) -> asyncio.Future[_Result]:
        """Runs `work` on one of the threads for what planning takes. Who is cancelled leaves it running."""
        return self._threads.run(partial(work, *given, **named))

    def close(self) -> None:
        """Ends the threads; blocks until what they do is done."""
        self._threads.close()

    def clear(self) -> None:
        """Forget all plans."""
        self._plans.clear()
