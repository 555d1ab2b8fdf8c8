"""Lowered queries, and what they scan, by bound query: a prepared statement is lowered once.

A bound query is immutable and lives in the plan cache, so it is known by its identity here; entries keep it alive.
The text also depends on the FROM items of its tables, the parameters and the settings that act inside expressions.
In text that names its execution (catalog functions) a placeholder stands for the token.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from msgspec import Struct

from adapter.engines.common.engine import EngineName
from adapter.engines.common.lookups import Lookup, lookup_of
from adapter.engines.common.result_batches import ResultShape
from adapter.engines.common.row_scans import RowScan, row_scan_of
from adapter.engines.common.scan_sources import ScanNeeds, scan_needs
from adapter.execution_context import ExecutionContext
from planner.errors import FeatureNotSupported, SqlError
from planner.functions.forms.form import SessionSettings
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Literal
from planner.ir.rewrite import walk
from planner.lowering.fragments.sources import ScanSource
from planner.lowering.lower import TOKEN, LoweredQuery, lower
from storage.bounded_map import BoundedMap
from storage.cache_memory import aging
from storage.catalog.model import Relation

MAX_QUERIES = 512
"""Bound queries known; about as many as plan caches hold between them."""

MAX_TEXTS = 8
"""Texts kept for one query: it may run with a few sets of parameters again and again, or with new ones each time."""


LONG_VALUE = 64 * 1024
"""Characters or bytes of a parameter's value."""


class EngineText(Struct, frozen=True):
    """A statement of the engine; `constants` is what the sources of its relations have to hold besides, by oid.
    `names_execution`: it calls functions that look for the execution's context."""

    sql: str
    constants: Mapping[int, tuple[Literal, ...]]
    names_execution: bool
    values: tuple[str | bytes, ...]
    """The parameters of the text: $1 is the first."""


class _Latest(Struct, frozen=True):
    """The text that was asked for last, with what it depends on but for parameters."""

    settings: Mapping[str, str]
    items: tuple[str, ...]
    """The FROM items of its sources."""
    lowered: LoweredQuery
    sql: str


class KnownQuery:
    """What one engine knows of a bound query: each thing is worked out when it is first asked for. Thread-safe."""

    def __init__(self, query: BoundQuery, engine: EngineName) -> None:
        self.query = query
        self.needs: ScanNeeds = scan_needs(query.rel)
        """What it scans."""
        self._engine: EngineName = engine
        self._lock = threading.Lock()
        self._unsupported: tuple[str | None] | None = None
        self._pairs_in_python = False
        self._lookup: tuple[Lookup | None] | None = None
        self._row_scan: tuple[Relation, RowScan | None] | None = None
        self._shape: ResultShape | None = None
        self._folds: bool | None = None
        self._texts: BoundedMap[object, LoweredQuery] = BoundedMap(max_entries=MAX_TEXTS)
        self._inlined: frozenset[int] = frozenset()
        """The parameters that any text so far has had inside."""
        self._latest: _Latest | None = None
        self.is_short = False
        """Whether it was expected to be answered at once when last somebody asked."""

    @property
    def shape(self) -> ResultShape:
        """The shape of its result."""
        if self._shape is None:
            self._shape = ResultShape(self.query.rel.fields)
        return self._shape

    @property
    def folds(self) -> bool:
        """Whether it only filters, projects and limits one table or a list of values, so that an optimiser can evaluate
        it over rows that are part of the plan."""
        if self._folds is None:
            self._folds = _folds(self.query.rel)
        return self._folds

    @property
    def lookup(self) -> Lookup | None:
        """The query as a lookup in one table, or None when it is more than that."""
        if self._lookup is None:
            self._lookup = (lookup_of(self.query.rel),)
        return self._lookup[0]

    def row_scan(self, relation: Relation) -> RowScan | None:
        """The query as one that is computed from the rows of `relation`, or None when it is more than that."""
        if self._row_scan is None or self._row_scan[0] is not relation:
            self._row_scan = (relation, row_scan_of(self.query.rel, relation))
        return self._row_scan[1]

    @property
    def unsupported(self) -> str | None:
        """Why the engine cannot run it, naming the construct, or None when it can."""
        if self._unsupported is None:
            self._unsupported = (self._why_not(),)
        return self._unsupported[0]

    @property
    def pairs_in_python(self) -> bool:
        """See `LoweredQuery.pairs_in_python`."""
        return self.unsupported is None and self._pairs_in_python

    def _why_not(self) -> str | None:
        # Most reads of the local engine are of small tables, so this text will most likely do for them.
        extendable = frozenset(self.needs.tables) if self._engine == "local" else frozenset[int]()
        try:
            params = None if self.query.param_types else ()
            lowered = self._lowered(extendable, params, SessionSettings(token=TOKEN))
            self._pairs_in_python = lowered.pairs_in_python
        except FeatureNotSupported as unsupported:
            return unsupported.message
        except SqlError:
            # Running it says so.
            return None
        return None

    def text(
        self, sources: Mapping[int, ScanSource], params: Sequence[Literal], context: ExecutionContext
    ) -> EngineText:
        """The engine's SQL over `sources`. Raises what `planner.lowering.lower` raises."""
        items = tuple([source.sql for source in sources.values()])
        latest = self._latest
        if (
            latest is None
            or latest.settings is not context.settings
            or latest.items != items
            or (params and self._inlined)
        ):
            extendable = frozenset([oid for oid, source in sources.items() if source.extended is not None])
            lowered = self._lowered(extendable, params, session_settings(context, token=TOKEN))
            latest = _Latest(context.settings, items, lowered, lowered.text(sources))
            self._latest = None if self._has_long_values(params) else latest
        constants = {
            oid: tuple([params[given.index - 1] if isinstance(given, ir.Param) else given for given in held])
            for oid, held in latest.lowered.constants.items()
        }
        names_execution = TOKEN in latest.sql
        sql = latest.sql.replace(TOKEN, context.token) if names_execution else latest.sql
        return EngineText(sql, constants, names_execution, latest.lowered.values)

    def _lowered(
        self, extendable: frozenset[int], params: Sequence[Literal] | None, settings: SessionSettings
    ) -> LoweredQuery:
        """The query lowered, kept unless values of parameters are missing."""
        acting = (settings.timezone, settings.datestyle, settings.intervalstyle, settings.extra_float_digits)

        def key(inlined: frozenset[int]) -> object:
            # By text: 0.0 equals -0.0 and 1.0 equals 1.00, but they are not the same value.
            values = [repr(param.value) for index, param in enumerate(params or (), 1) if index in inlined]
            return extendable, acting, inlined, tuple(values)

        keeps = params is not None and not self._has_long_values(params)
        known = self._texts.get(key(self._inlined)) if keeps else None
        if known is not None:
            return known
        lowered = lower(self.query.rel, self._engine, extendable, params, settings)
        if params is not None:
            with self._lock:
                self._inlined |= lowered.inlined
                if not self._has_long_values(params):
                    self._texts.put(key(self._inlined), lowered)
        return lowered

    def _has_long_values(self, params: Sequence[Literal]) -> bool:
        """Whether a value that is part of the text, as far as that is known, is so long that the text is not kept: it
        would take much memory, and hardly anybody sends the same again."""
        values = [params[index - 1].value for index in self._inlined if index <= len(params)]
        return any(isinstance(value, str | bytes) and len(value) > LONG_VALUE for value in values)


class KnownQueries:
    """The latest queries of one engine. Thread-safe."""

    def __init__(self, engine: EngineName) -> None:
        self._engine: EngineName = engine
        self._lock = threading.Lock()
        self._known: BoundedMap[int, KnownQuery] = aging(BoundedMap(max_entries=MAX_QUERIES))

    def has(self, query: BoundQuery) -> bool:
        """Whether anything is known of `query`."""
        known = self._known.get(id(query))
        return known is not None and known.query is query

    def of(self, query: BoundQuery) -> KnownQuery:
        """What is known of `query`."""
        with self._lock:
            known = self._known.get(id(query))
            if known is not None and known.query is query:
                self._known.touch(id(query))
                return known
        known = KnownQuery(query, self._engine)
        with self._lock:
            self._known.put(id(query), known)
        return known


class AskedEngine:
    """What the engines answer from what they know of a query; see `Engine`."""

    _known: KnownQueries

    def avoided(self, query: BoundQuery) -> str | None:
        """See `Engine.avoided`."""
        return "Spark would call Python for each pair of rows" if self._known.of(query).pairs_in_python else None


def _folds(rel: ir.Rel) -> bool:
    if any(isinstance(node, _SUBQUERIES) for node in walk(rel)):
        return False
    while isinstance(rel, (ir.Project, ir.Filter, ir.Limit)):
        rel = rel.input
    return isinstance(rel, (ir.OneRow, ir.Values, ir.Scan))


_SUBQUERIES = (ir.ScalarSubquery, ir.Exists, ir.QuantifiedSubquery, ir.ArraySubquery)


def session_settings(context: ExecutionContext, *, token: str) -> SessionSettings:
    """The settings of `context` that act inside expressions. `context.settings` is keyed as SHOW spells the names."""
    values = context.settings
    return SessionSettings(
        timezone=values.get("TimeZone", "UTC"),
        datestyle=values.get("DateStyle", "ISO, MDY"),
        intervalstyle=values.get("IntervalStyle", "postgres"),
        extra_float_digits=int(values.get("extra_float_digits", "1")),
        token=token,
    )
