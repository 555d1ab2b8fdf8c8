"""The errors that are raised in several places, each with its words in one: PostgreSQL's, as `planner.errors` asks.

A function makes the error; whoever calls it raises it. `position` is that of `SqlError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag, auto
from types import MappingProxyType
from typing import ClassVar

from planner.errors import (
    AdminShutdown,
    AmbiguousColumn,
    DatetimeFieldOverflow,
    DivisionByZero,
    DuplicateColumn,
    DuplicateTable,
    FeatureNotSupported,
    InternalError,
    InvalidCatalogName,
    InvalidColumnReference,
    InvalidName,
    InvalidParameterValue,
    InvalidRowCountInLimitClause,
    InvalidSchemaName,
    NumericValueOutOfRange,
    QueryCanceled,
    SqlError,
    SqlSyntaxError,
    StatementTooComplex,
    TooManyColumns,
    UndefinedColumn,
    UndefinedFunction,
    UndefinedObject,
    UndefinedParameter,
    UndefinedTable,
    WrongObjectType,
)

MAX_TARGETS = 1664
"""PostgreSQL's limit of what a query level computes: its columns, and what it sorts and groups by besides."""

MAX_INDEX_COLUMNS = 32
"""PostgreSQL's INDEX_MAX_KEYS."""

# ---------------------------------------------------------------- names


class EngineFailed(InternalError):
    """An engine raised what no statement may cause."""


class EngineRefuses(FeatureNotSupported):
    """An engine cannot run the statement, which shows only as it runs it: the other one may."""


class Held(IntFlag):
    """How a statement holds the numerics that it makes: as decimals where these have room for all but few values, and
    as texts where it has met one of the few."""

    DECIMALS = 0
    NAN = auto()
    """Values of numeric(p, s) as texts, for the NaN among them."""
    LONG = auto()
    """What is computed and may have more than 38 digits as texts."""


class NotHeld(SqlError):
    """A numeric that decimals have no room for, where the statement holds numerics as such. Whoever runs it does so
    again, with those held as texts that it `needs` (`planner.types.type_scope.TypeScope.held`), where that can be. It
    is no FeatureNotSupported, which would say that another engine might do. `columns` are those (attnums, by the oid of
    their table) that are to hold NaN before it runs again, where they are not what the statement itself says it
    changes."""

    needs: ClassVar[Held]
    columns: Mapping[int, frozenset[int]] = MappingProxyType({})

    def when_held(self) -> SqlError:
        """What is the matter where it has been carried out with what it `needs` and meets such a value again."""
        return self


class NanNotHeld(NotHeld):
    """A NaN where numerics with a precision are held as decimals."""

    sqlstate = "0A000"
    needs = Held.NAN
    MESSAGE = "NaN in a column of type numeric with a precision is not supported"

    def __init__(
        self,
        *,
        hint: str | None = None,
        detail: str | None = None,
        columns: Mapping[int, frozenset[int]] = MappingProxyType({}),
    ) -> None:
        super().__init__(self.MESSAGE, hint=hint, detail=detail)
        self.columns = columns


class DecimalOverflow(NotHeld):
    """A result of more than 38 digits, or a value that the decimal of this `shape` (precision and scale) has no room
    for."""

    sqlstate = "22003"
    needs = Held.LONG

    def __init__(self, shape: tuple[int, int] | None = None) -> None:
        error = numeric_overflow() if shape is None or shape[0] >= _LONGEST else field_overflow(*shape)
        super().__init__(error.message, detail=error.detail)
        self.shape = shape

    def when_held(self) -> SqlError:
        # What is computed has all the room that it takes by then: the decimal is one that was asked for.
        return self if self.shape is None else field_overflow(*self.shape)


_LONGEST = 38
"""Digits of the longest decimals, which have what is computed, too."""


class UnsafeNewEnumValueUsage(SqlError):
    """A value of an enum that the transaction itself has added."""

    sqlstate = "55P04"
    HINT = "New enum values must be committed before they can be used."

    def __init__(self, label: str, type_name: str) -> None:
        super().__init__(f'unsafe use of new value "{label}" of enum type {type_name}', hint=self.HINT)


def missing_database(name: str, *, fatal: bool = False) -> InvalidCatalogName:
    return InvalidCatalogName(f'database "{name}" does not exist', fatal=fatal)


def missing_schema(name: str, position: int | None = None) -> InvalidSchemaName:
    return InvalidSchemaName(f'schema "{name}" does not exist', position=position)


def missing_relation(name: str, position: int | None = None) -> UndefinedTable:
    return UndefinedTable(f'relation "{name}" does not exist', position=position)


def existing_relation(name: str) -> DuplicateTable:
    return DuplicateTable(f'relation "{name}" already exists')


def not_open(name: str, position: int | None = None) -> WrongObjectType:
    return WrongObjectType(
        f'cannot open relation "{name}"',
        detail="This operation is not supported for composite types.",
        position=position,
    )


def missing_column(relation: str, name: str, position: int | None = None) -> UndefinedColumn:
    return UndefinedColumn(f'column "{name}" of relation "{relation}" does not exist', position=position)


def unknown_column(name: str, position: int | None = None) -> UndefinedColumn:
    """Of a column that is named without its relation."""
    return UndefinedColumn(f'column "{name}" does not exist', position=position)


def missing_key_column(name: str, position: int | None = None) -> UndefinedColumn:
    return UndefinedColumn(f'column "{name}" named in key does not exist', position=position)


def ambiguous_column(name: str, position: int | None = None) -> AmbiguousColumn:
    return AmbiguousColumn(f'column reference "{name}" is ambiguous', position=position)


def repeated_column(name: str, position: int | None = None) -> DuplicateColumn:
    return DuplicateColumn(f'column "{name}" specified more than once', position=position)


def missing_role(name: str) -> UndefinedObject:
    return UndefinedObject(f'role "{name}" does not exist')


def missing_function(name: str) -> UndefinedFunction:
    return UndefinedFunction(f'function "{name}" does not exist')


def missing_operator(text: str, *, hint: str | None = None, position: int | None = None) -> UndefinedFunction:
    return UndefinedFunction(f"operator does not exist: {text}", hint=hint, position=position)


def missing_parameter(number: int, position: int | None = None) -> UndefinedParameter:
    return UndefinedParameter(f"there is no parameter ${number}", position=position)


def no_such_key() -> InvalidColumnReference:
    return InvalidColumnReference("there is no unique or exclusion constraint matching the ON CONFLICT specification")


def unknown_setting(name: str) -> UndefinedObject:
    return UndefinedObject(f'unrecognized configuration parameter "{name}"')


def unknown_time_zone(name: str) -> InvalidParameterValue:
    return InvalidParameterValue(f'time zone "{name}" not recognized')


def other_database(name: object, position: int | None = None) -> FeatureNotSupported:
    return FeatureNotSupported(f'cross-database references are not implemented: "{name}"', position=position)


def invalid_name() -> InvalidName:
    return InvalidName("invalid name syntax")


def invalid_type_name(text: str) -> SqlSyntaxError:
    return SqlSyntaxError(f'invalid type name "{text}"')


def improper_relation_name(name: str) -> SqlSyntaxError:
    return SqlSyntaxError(f"improper relation name (too many dotted names): {name}")


# ---------------------------------------------------------------- values


def division_by_zero() -> DivisionByZero:
    return DivisionByZero("division by zero")


def numeric_overflow() -> NumericValueOutOfRange:
    return NumericValueOutOfRange("value overflows numeric format")


def field_overflow(precision: int, scale: int) -> NumericValueOutOfRange:
    """For what numeric(precision, scale) has no room for."""
    whole = precision - scale
    limit = f"10^{whole}" if whole else "1"
    return NumericValueOutOfRange(
        "numeric field overflow",
        detail=f"A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}.",
    )


def float_overflow() -> NumericValueOutOfRange:
    return NumericValueOutOfRange("value out of range: overflow")


def timestamp_out_of_range() -> DatetimeFieldOverflow:
    return DatetimeFieldOverflow("timestamp out of range")


def interval_out_of_range() -> DatetimeFieldOverflow:
    return DatetimeFieldOverflow("interval out of range")


def datetime_field_overflow(text: str, hint: str | None = None) -> DatetimeFieldOverflow:
    return DatetimeFieldOverflow(f'date/time field value out of range: "{text}"', hint=hint)


def negative_limit() -> InvalidRowCountInLimitClause:
    return InvalidRowCountInLimitClause("LIMIT must not be negative")


# ---------------------------------------------------------------- statements and sessions


def redundant_options(position: int | None = None) -> SqlSyntaxError:
    return SqlSyntaxError("conflicting or redundant options", position=position)


def unsupported_format(code: int) -> InvalidParameterValue:
    return InvalidParameterValue(f"unsupported format code: {code}")


def too_many_targets() -> TooManyColumns:
    return TooManyColumns(f"target lists can have at most {MAX_TARGETS} entries")


def too_many_index_columns() -> TooManyColumns:
    return TooManyColumns(f"cannot use more than {MAX_INDEX_COLUMNS} columns in an index")


def too_deep() -> StatementTooComplex:
    """For what nests deeper than the stack allows."""
    return StatementTooComplex(
        "stack depth limit exceeded",
        hint='Increase the configuration parameter "max_stack_depth" (currently 2048kB), after ensuring the '
        "platform's stack depth limit is adequate.",
    )


def canceled() -> QueryCanceled:
    return QueryCanceled("canceling statement due to user request")


def shut_down() -> AdminShutdown:
    return AdminShutdown("terminating connection due to administrator command", fatal=True)
