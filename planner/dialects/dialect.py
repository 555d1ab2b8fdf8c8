"""How an engine says what both engines can, and what only one of them can.

A method takes SQL (of an argument, or the place of one in a template, ``{0}``) and gives SQL; a class attribute says
whether the engine has a construct. Each is a question that a lowering asks, so that it need not know which engine it
prints for.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from planner.dialects.error_text import END, start_of_error
from planner.dialects.time_zones import TimeZones
from planner.ir.nodes import Interval
from planner.types.types import SqlType

JSON_FRACTIONS = r'("(?:[^"\\]|\\.)*")|(\.[0-9]*[1-9])0*|\.0+'
"""The strings of a JSON text, kept by group 1, and the fractions of its numbers, of which group 2 keeps what counts."""


class Dialect(TimeZones):
    """One engine's SQL."""

    # ------------------------------------------------------------ what the engine has

    string_constant: ClassVar[re.Pattern[str]]
    """A string literal, to pass over those in a template."""
    reads_catalog: ClassVar[bool]
    """System relations, and the functions that look into the catalog (``tg_regclass_in``)."""
    takes_values: ClassVar[bool]
    """Whether a text has parameters, with values beside it."""
    borrows_functions: ClassVar[bool]
    """Whether a routine without a form of its own is called as the other engine's function in Python."""
    python_in_lambdas: ClassVar[bool]
    """Calls of functions in Python inside a lambda."""
    let_of_subqueries: ClassVar[bool]
    """Subqueries in the value of `let`. No engine takes them in its body."""
    list_quantifiers: ClassVar[bool]
    """``exists`` and ``forall`` over a list."""
    quantified_subqueries: ClassVar[bool]
    """``x < ALL (SELECT ...)``, and IN (SELECT ...) with NULL where it is due."""
    computed_rows: ClassVar[bool]
    """VALUES with expressions, not only constants."""
    row_source: ClassVar[str | None]
    """What a SELECT without FROM reads instead, where that saves work."""
    late_constant: ClassVar[str | None]
    """A template: a constant condition that is evaluated when rows come to it. None: all are."""
    python_in_all_joins: ClassVar[bool]
    """Functions in Python of both sides in conditions of outer joins, EXISTS and IN; the other way is to aggregate the
    rows that match."""
    subqueries_in_on: ClassVar[bool]
    """Subqueries in the condition of an outer join that depend on its rows."""
    lateral_lists: ClassVar[bool]
    """LATERAL with set-returning functions; the other way is to expand the left side's rows."""
    recursive_union: ClassVar[bool]
    """UNION that is not UNION ALL in WITH RECURSIVE."""
    recursive_groups: ClassVar[bool]
    """Grouping, window functions and sorting over the rows so far, in WITH RECURSIVE."""
    materialized_tables: ClassVar[bool]
    """The words MATERIALIZED and NOT MATERIALIZED."""
    lazy_logic: ClassVar[bool]
    """Whether AND and OR in a select list leave out what cannot change their result."""
    max_row_count: ClassVar[int]
    """The largest LIMIT and OFFSET."""
    computed_row_counts: ClassVar[bool]
    """LIMIT and OFFSET that are no constants."""
    subqueries_among_groups: ClassVar[bool]
    """Correlated subqueries in the select list and in HAVING of a grouped query."""
    loses_volatile_conditions: ClassVar[bool]
    """Whether a volatile condition may be forgotten or come after a join above it, where it is in WHERE."""
    barrier: ClassVar[str | None]
    """A condition that is always true and that the engine moves no other condition through; None where OFFSET 0 does as
    much (`planner.ir.barriers`)."""
    subqueries_as_sort_keys: ClassVar[bool]
    """Correlated subqueries in ORDER BY."""
    windows_as_sort_keys: ClassVar[bool]
    """Window functions in ORDER BY that are not among the output columns."""
    outputs_in_sort_keys: ClassVar[bool]
    """ORDER BY of an expression over output columns, where the query is grouped or DISTINCT."""
    grouping_in_having: ClassVar[bool]
    """GROUPING() in HAVING of a query with ORDER BY."""
    lambdas_in_having: ClassVar[bool]
    """Functions of a lambda among the conditions on groups."""
    sorts_above_having: ClassVar[bool]
    """ORDER BY what no column has of a query with HAVING."""
    aggregated_subqueries: ClassVar[bool]
    """Subqueries in the arguments, the order and the FILTER of aggregates."""
    totals_of_nothing: ClassVar[bool]
    """A row for an empty grouping set where there are no rows."""
    ordered_aggregates: ClassVar[bool]
    """ORDER BY inside an aggregate that collects."""
    volatile_window_keys: ClassVar[bool]
    """PARTITION BY and ORDER BY of what may change with each evaluation, or raise an error."""
    unordered_ranks: ClassVar[bool]
    """rank() and its like over a window without ORDER BY."""
    unordered_ranges: ClassVar[bool]
    """A frame in RANGE mode over a window without ORDER BY."""
    filtered_windows: ClassVar[bool]
    """FILTER with OVER."""
    group_frames: ClassVar[bool]
    """A window frame in GROUPS mode."""
    frame_exclusion: ClassVar[bool]
    """EXCLUDE in a window frame."""
    computed_frame_offsets: ClassVar[bool]
    """Frame offsets that are no constants."""
    dates_in_months: ClassVar[bool]
    """Whether a RANGE frame over dates takes offsets in months, and no others."""
    usual_inputs: ClassVar[Mapping[int, str]]
    """By type: the regular expression of the texts that the engine's own cast reads as PostgreSQL does, faster than our
    function."""
    bounded_bigint: ClassVar[bool]
    """Whether a cast to bigint of a float beyond it always raises an error."""
    first_group: ClassVar[str]
    """The first group of a match, in the replacement of regexp_replace."""
    list_function: ClassVar[str]
    """The aggregate that makes a list of its rows."""
    expanding_function: ClassVar[str]
    """The set-returning function that gives a list's elements, one a row."""
    first_position: ClassVar[int]
    """The position of a list's first element, as `transform_indexed` counts."""
    whole_division: ClassVar[str]
    """The operator that divides whole numbers, towards zero."""
    json_string: ClassVar[str]
    """A template that makes a text a JSON string."""
    json_equality_key: ClassVar[str]
    """A template that makes equal values of jsonb the same text: members are in order and spaces in place already, but
    1.50 is 1.5."""

    # ------------------------------------------------------------ names, errors, bindings

    @abstractmethod
    def quoted_name(self, name: str) -> str:
        """A name of any content as an identifier."""

    @abstractmethod
    def let(self, value: str, name: str, body: str) -> str:
        """`body`, in which `name` stands for `value`, evaluated once."""

    @abstractmethod
    def error(self, message: str) -> str:
        """An expression of any type that raises `message`, an SQL string expression, when it is evaluated."""

    def raise_sql(self, sqlstate: str, message: str) -> str:
        """An expression that raises a PostgreSQL error; see `planner.lowering.engine_errors`."""
        return self.error(self.string(start_of_error(sqlstate, message)))

    def raise_invalid_input(self, type_name: str, text: str) -> str:
        """An expression that refuses a text as the input of a type."""
        return self.raise_quoting("22P02", f"invalid input syntax for type {type_name}: ", text)

    def raise_quoting(self, sqlstate: str, message: str, text: str) -> str:
        """An expression that raises an error whose message ends with a text, in double quotes."""
        return self.raise_about(sqlstate, f'{message}"', text, '"')

    def raise_about(self, sqlstate: str, before: str, text: str, after: str) -> str:
        """An expression that raises a PostgreSQL error whose message has the value of the expression `text` in it."""
        start = self.string(start_of_error(sqlstate, before))
        return self.error(f"concat({start}, {text}, {self.string(after + END)})")

    @abstractmethod
    def distinct(self, left: str, right: str, *, negated: bool) -> str:
        """IS DISTINCT FROM, or IS NOT DISTINCT FROM."""

    @abstractmethod
    def grouping(self, keys: Sequence[str]) -> str:
        """GROUPING(keys) as an integer: one bit for each key, the last one the lowest."""

    # ------------------------------------------------------------ lists and structs

    @abstractmethod
    def record_field(self, record: str, index: int) -> str:
        """The text of the field at `index` of a record, which is held as its text; NULL for one that is NULL."""

    @abstractmethod
    def transform(self, array: str, name: str, body: str) -> str:
        """The list of `body` for each element of `array`, which is called `name` there."""

    @abstractmethod
    def transform_indexed(self, array: str, name: str, position: str, body: str) -> str:
        """Like `transform`; the element's position, from `first_position`, is called `position`."""

    @abstractmethod
    def filter(self, array: str, name: str, condition: str) -> str:
        """The elements of `array` for which `condition` is true."""

    @abstractmethod
    def length(self, array: str) -> str:
        """How many elements a list has."""

    @abstractmethod
    def join(self, array: str, separator: str) -> str:
        """The elements of a list of texts with `separator` between them."""

    @abstractmethod
    def element(self, *, zero_based: bool, in_range: bool) -> str:
        """A template of ``{0}[{1}]``: NULL outside of the list. `in_range` says that the index is a constant and not
        below the first."""

    @abstractmethod
    def slice(self, type: SqlType) -> str:
        """A template of ``{0}[{1}:{2}]``, where the lower bound is at least 1; `type` is the list's."""

    @abstractmethod
    def selected(self, array: str, places: str) -> str:
        """The list of the elements of `array` at `places`, a list of numbers from 1 on; NULL where there is none."""

    @abstractmethod
    def repeated(self, item: str, count: str) -> str:
        """A list of `count` times `item`."""

    @abstractmethod
    def concatenated(self, left: str, right: str) -> str:
        """The elements of two lists."""

    @abstractmethod
    def nth(self, array: str, place: str) -> str:
        """The element at `place`, from 1 on; NULL where there is none."""

    @abstractmethod
    def with_elements(self, array: str, *, lower: str, upper: str, items: str, element: SqlType) -> str:
        """A list with the places from `lower` (1-based) to `upper` taken by the first elements of the list `items`, and
        with NULLs in those before that it has not got. `element` is the type of its elements."""

    def element_key(self, element: str, key: str) -> str:
        """What orders an array's element as PostgreSQL does, NULL last; `key` orders those that are not NULL."""
        return key

    # ------------------------------------------------------------ texts

    @abstractmethod
    def without_trailing_blanks(self, text: str) -> str:
        """A text without the blanks at its end."""

    @abstractmethod
    def without_leading(self, text: str, characters: str) -> str:
        """A text without those of `characters` (an SQL string) that it starts with."""

    @abstractmethod
    def without_trailing_zeros(self, digits: str) -> str:
        """A number's text without the zeros at the end of its fraction."""

    @abstractmethod
    def matches(self, text: str, pattern: str) -> str:
        """Whether a text holds a match of the regular expression `pattern`."""

    @abstractmethod
    def matches_fully(self, text: str, pattern: str) -> str:
        """Whether a whole text matches the regular expression `pattern`."""

    @abstractmethod
    def float_input(self, oid: int) -> str:
        """A template that reads a text as strtod does; `oid` is real or double precision. Raises 22P02, 22003."""

    @abstractmethod
    def float_text(self, oid: int) -> str:
        """A template of a float's text; `oid` is real or double precision."""

    @abstractmethod
    def interval_text(self, style: str) -> str:
        """A template of an interval's text in an IntervalStyle. Raises 0A000 for a style that is not there."""

    @abstractmethod
    def moment_text(self, moment: str) -> str:
        """The text of a date or timestamp in DateStyle ISO."""

    @abstractmethod
    def timestamptz_text(self, timezone: str) -> str:
        """A template of a moment's text in a time zone."""

    # ------------------------------------------------------------ numbers

    @abstractmethod
    def is_finite(self, number: str) -> str:
        """Whether a float is neither infinite nor NaN."""

    @abstractmethod
    def is_infinite(self, number: str) -> str:
        """Whether a float is infinite."""

    @abstractmethod
    def significant_digits(self, number: str, digits: int) -> str:
        """A float's text, rounded to that many significant digits."""

    @abstractmethod
    def half_even(self, number: str) -> str:
        """A float whose cast to an integer type rounds halves to even."""

    @abstractmethod
    def half_away(self, number: str) -> str:
        """A decimal whose cast to an integer type rounds halves away from zero."""

    @abstractmethod
    def wide_integer(self) -> str:
        """The name of a type for whole numbers beyond bigint."""

    def interval_key(self, interval: str) -> str:
        """The duration by which PostgreSQL compares an interval: a month is 30 days, a day 24 hours."""
        wide = self.wide_integer()
        return (
            f"(CAST({interval}.months AS {wide}) * 2592000000000 + CAST({interval}.days AS {wide}) * 86400000000 + "
            f"CAST({interval}.micros AS {wide}))"
        )

    # ------------------------------------------------------------ moments

    @abstractmethod
    def time_micros(self, time: str) -> str:
        """The microseconds since midnight of a time."""

    @abstractmethod
    def time_of_timestamp(self, timestamp: str) -> str:
        """The time of day of a timestamp."""

    @abstractmethod
    def time_of_micros(self, micros: str) -> str:
        """The time of day that many microseconds after midnight, fewer than a day has."""

    def time_text(self, time: str) -> str:
        """The text of a time of day."""
        return f"CAST({time} AS {self.text})"

    @abstractmethod
    def interval_struct(self, months: str, days: str, micros: str) -> str:
        """An interval of these parts, SQL of whole numbers of any type."""

    @abstractmethod
    def frame_interval(self, interval: Interval) -> str | None:
        """The engine's own interval as the offset of a window frame; None for one that it cannot say."""
