"""What binding a query or a change of rows makes: relations of the IR with what else is known of the statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from planner.ir.file_rows import FileTable, ForeignRead
from planner.ir.nodes import Rel, Scalar
from planner.ir.past_rows import PastTable
from planner.ir.required import Required
from planner.types.types import SqlType


class BoundQuery(Struct, frozen=True, kw_only=True):
    """A SELECT, VALUES or TABLE. The result's columns are `rel.fields`, in order. `param_types[i]` is the type of
    $i+1. `relations` are the oids of all user tables and views read (views are expanded); `system` is true when a
    system relation is read. `locking` is the first clause that locks rows, as messages name it ("FOR UPDATE").
    `functions` are the oids of the functions of users that it calls. With `validated` what it reads is held at the
    commit against what others have written, at every isolation level. `files` are the rows of files that it reads, by
    the `CteScan.cte` through which it does."""

    rel: Rel
    param_types: tuple[SqlType, ...] = ()
    relations: frozenset[int] = field(default_factory=frozenset)
    system: bool = False
    volatile: bool = False
    locking: str | None = None
    validated: bool = False
    functions: frozenset[int] = field(default_factory=frozenset)
    files: Mapping[int, FileTable] = field(default_factory=dict)
    foreign: Mapping[int, ForeignRead] = field(default_factory=dict)
    """The foreign tables that it reads, by the same: who runs it finds their files first."""
    past: Mapping[int, PastTable] = field(default_factory=dict)
    """The tables that it reads as they were, by the id of their `Scan` or `CteScan`."""
    required: tuple[Required, ...] = ()
    """Of a whole statement: the privileges that it needs. So in the records below."""


class BoundInsert(Struct, frozen=True, kw_only=True):
    """INSERT. `source` yields one column for each of `columns` (attnums), already coerced to the column's type
    (assignment), defaults filled in for all live columns of the table, so `columns` is every live attnum in order.
    Generated columns are NULL there: `computed` gives rows at hand (`RETURNING_ROWS`) with their values, `complete` is
    `source` with them, unless its rows are written out. `returning` reads `Scan` fields through the ids in
    `returning_fields` (one per column)."""

    relation_oid: int
    columns: tuple[int, ...]
    source: BoundQuery
    not_null: tuple[int, ...]
    computed: BoundQuery | None = None
    complete: BoundQuery | None = None
    returning: Returning | None = None
    on_conflict: OnConflict | None = None
    view_checks: ViewChecks | None = None
    policies: PolicyChecks | None = None
    required: tuple[Required, ...] = ()
    foreign: bool = False
    """Whether it is into a foreign table: its rows become files."""


class PolicyChecks(Struct, frozen=True, kw_only=True):
    """What row-level security requires of rows: `query` gives for each row (as `RETURNING_ROWS`) the number of the
    first of `messages` that is its error, from 1 on, or 0."""

    messages: tuple[str, ...]
    query: BoundQuery


class ViewChecks(Struct, frozen=True, kw_only=True):
    """What views WITH CHECK OPTION require of new rows. `query` gives for each row at hand (`RETURNING_ROWS`, the
    table's live columns) the number of the first of `views` that would not show it, from 1 on, or 0."""

    views: tuple[str, ...]
    query: BoundQuery


class OnConflict(Struct, frozen=True, kw_only=True):
    """ON CONFLICT. `arbiters` are the oids of the keys that decide; all of the table when empty. `update` reads, as
    `CteScan(cte=RETURNING_ROWS)`, the live columns of the rows that are there and then those of the rows that were to
    be inserted; it gives for each whether it is changed, and its live columns afterwards. None is DO NOTHING. It
    assigns to the live columns at the places `assigned`. What row-level security requires of rows that change: as they
    are there (`existing`), and afterwards (`updated`)."""

    arbiters: tuple[int, ...]
    update: BoundQuery | None
    conditional: tuple[ConditionalKey, ...] = ()
    """Further ones, which decide for some values of the statement's parameters: if none of either kind does, 42P10."""
    assigned: frozenset[int] = frozenset()
    existing: PolicyChecks | None = None
    updated: PolicyChecks | None = None


class ConditionalKey(Struct, frozen=True, kw_only=True):
    """A partial index whose `predicate` has to follow from the condition `given` in a conflict target, which has
    parameters."""

    oid: int
    predicate: Scalar
    given: Scalar


class BoundUpdate(Struct, frozen=True, kw_only=True):
    """UPDATE. `read` yields: the row id (int8), every live column's old value (attnum order), then every live
    column's new value (assignment-coerced, attnum order), then what RETURNING needs of other tables. One row per
    changed row (a join that matches a row several times keeps one)."""

    relation_oid: int
    columns: tuple[int, ...]
    read: BoundQuery
    not_null: tuple[int, ...]
    returning: Returning | None = None
    view_checks: ViewChecks | None = None
    policies: PolicyChecks | None = None
    required: tuple[Required, ...] = ()


class BoundDelete(Struct, frozen=True, kw_only=True):
    """DELETE. `read` yields the row id (int8), then every live column's old value (attnum order), then what RETURNING
    needs of other tables."""

    relation_oid: int
    columns: tuple[int, ...]
    read: BoundQuery
    returning: Returning | None = None
    required: tuple[Required, ...] = ()


class MergeAction(Struct, frozen=True, kw_only=True):
    """What one WHEN clause of a MERGE does: "insert", "update", "delete" or "nothing". `numbered` are columns of an
    inserted row (places among the live ones) that get the next number of a sequence, and its name or oid; they are NULL
    among the new values."""

    command: str
    numbered: tuple[tuple[int, Scalar], ...] = ()


class MergePolicies(Struct, frozen=True, kw_only=True):
    """What row-level security requires of the rows that MERGE inserts and those that it updates, before (`replaced`)
    and after, and of those that it deletes."""

    inserted: PolicyChecks | None = None
    replaced: PolicyChecks | None = None
    updated: PolicyChecks | None = None
    deleted: PolicyChecks | None = None


class BoundMerge(Struct, frozen=True, kw_only=True):
    """MERGE. `read` yields the row id (int8; NULL for a row of the source without a match), every live column's old
    value (attnum order), every live column's new value, the number of the action (int4, from 1), then what RETURNING
    needs besides: one row for each pair to which something is done. `computed` gives rows at hand (`RETURNING_ROWS`)
    with their generated columns."""

    relation_oid: int
    columns: tuple[int, ...]
    read: BoundQuery
    actions: tuple[MergeAction, ...]
    computed: BoundQuery | None = None
    policies: MergePolicies | None = None
    returning: Returning | None = None
    required: tuple[Required, ...] = ()


class Returning(Struct, frozen=True, kw_only=True):
    """RETURNING: `query` reads the affected rows as `CteScan(cte=RETURNING_ROWS)`, whose columns are the table's
    live columns, then those of other tables that `read` gives; `marked`: then whether ON CONFLICT DO UPDATE has found
    the row."""

    query: BoundQuery
    marked: bool = False


WITH_ROWS = -1_000_000
"""From here down: the `CteScan.cte` of rows that a step of a data-modifying WITH has left."""


class WithStep(Struct, frozen=True, kw_only=True):
    """One query of a data-modifying WITH that is run by itself: a change, or what several others read. They read its
    rows as `CteScan` of `id`, which is `WITH_ROWS` or below. A change without RETURNING has none."""

    id: int
    name: str
    statement: BoundStatement


class BoundWith(Struct, frozen=True, kw_only=True):
    """A statement whose WITH changes rows. Each step reads none but earlier ones. All of them and `body` see the
    same snapshot; changes are run to their end whether somebody reads them or not."""

    steps: tuple[WithStep, ...]
    body: BoundStatement
    required: tuple[Required, ...] = ()


BoundChange: TypeAlias = BoundInsert | BoundUpdate | BoundDelete | BoundMerge
BoundStatement: TypeAlias = BoundQuery | BoundChange | BoundWith


class Arguments(Struct, frozen=True, kw_only=True):
    """What the parameters of the function whose body is being bound stand for: `values[i]` is $i+1, and is called
    `names[i]` if that is not empty, also qualified by the name of the `function`."""

    function: str
    names: tuple[str, ...]
    values: tuple[Scalar, ...]

    def named(self, parts: Sequence[str]) -> Scalar | None:
        """The argument that a reference of one or two parts means, if it means one."""
        if len(parts) == 2 and parts[0] != self.function:
            return None
        if not 1 <= len(parts) <= 2 or not parts[-1] or parts[-1] not in self.names:
            return None
        return self.values[self.names.index(parts[-1])]
