"""The one tree of errors that users see.

Each carries a SQLSTATE (PostgreSQL, appendix A). The primary message is lower-case without a full stop, detail
and hint are whole sentences (PostgreSQL, "Error Message Style Guide"). `InternalError` (XX000) is for our bugs.
"""

from __future__ import annotations

from typing import ClassVar


class SqlError(Exception):
    """An error with the fields of PostgreSQL's ErrorResponse.

    `position` is the 1-based offset in characters into the statement's text; the names of schema, table,
    column, data type and constraint are given where the error concerns one. `routine` is the PostgreSQL
    function that clients match on, where they do.
    """

    sqlstate: ClassVar[str] = "XX000"

    def __init__(
        self,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
        where: str | None = None,
        schema: str | None = None,
        table: str | None = None,
        column: str | None = None,
        datatype: str | None = None,
        constraint: str | None = None,
        routine: str | None = None,
        fatal: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position
        self.where = where
        self.schema = schema
        self.table = table
        self.column = column
        self.datatype = datatype
        self.constraint = constraint
        self.routine = routine
        self.fatal = fatal
        self.row: int | None = None
        """The row at fault, counted from 0, of those that COPY reads."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sqlstate}, {self.message!r})"


class InternalError(SqlError):
    sqlstate = "XX000"


class SqlclientUnableToEstablishSqlconnection(SqlError):
    sqlstate = "08001"


class ProtocolViolation(SqlError):
    sqlstate = "08P01"


class FeatureNotSupported(SqlError):
    sqlstate = "0A000"


class CardinalityViolation(SqlError):
    sqlstate = "21000"


class DataException(SqlError):
    sqlstate = "22000"


class StringDataRightTruncation(DataException):
    sqlstate = "22001"


class NumericValueOutOfRange(DataException):
    sqlstate = "22003"


class NullValueNotAllowed(DataException):
    sqlstate = "22004"


class InvalidDatetimeFormat(DataException):
    sqlstate = "22007"


class DatetimeFieldOverflow(DataException):
    sqlstate = "22008"


class InvalidTimeZoneDisplacementValue(DataException):
    sqlstate = "22009"


class SubstringError(DataException):
    sqlstate = "22011"


class DivisionByZero(DataException):
    sqlstate = "22012"


class InvalidUseOfEscapeCharacter(DataException):
    sqlstate = "2200C"


class InvalidEscapeSequence(DataException):
    sqlstate = "22025"


class IntervalFieldOverflow(DataException):
    sqlstate = "22015"


class SequenceGeneratorLimitExceeded(DataException):
    sqlstate = "2200H"


class InvalidArgumentForLogarithm(DataException):
    sqlstate = "2201E"


class InvalidArgumentForWidthBucketFunction(DataException):
    sqlstate = "2201G"


class InvalidArgumentForNtile(DataException):
    sqlstate = "22014"


class InvalidArgumentForNthValue(DataException):
    sqlstate = "22016"


class InvalidArgumentForPowerFunction(DataException):
    sqlstate = "2201F"


class InvalidRegularExpression(DataException):
    sqlstate = "2201B"


class InvalidRowCountInLimitClause(DataException):
    sqlstate = "2201W"


class InvalidRowCountInResultOffsetClause(DataException):
    sqlstate = "2201X"


class CharacterNotInRepertoire(DataException):
    sqlstate = "22021"


class ExternalRoutineInvocation(SqlError):
    sqlstate = "39000"


class InvalidParameterValue(DataException):
    sqlstate = "22023"


class InvalidTextRepresentation(DataException):
    sqlstate = "22P02"


class InvalidBinaryRepresentation(DataException):
    sqlstate = "22P03"


class BadCopyFileFormat(DataException):
    sqlstate = "22P04"


class UntranslatableCharacter(DataException):
    sqlstate = "22P05"


class StringDataLengthMismatch(DataException):
    sqlstate = "22026"


class InvalidTablesampleArgument(DataException):
    sqlstate = "2202H"


class InvalidTablesampleRepeat(DataException):
    sqlstate = "2202G"


class ArraySubscriptError(DataException):
    sqlstate = "2202E"


class SqlJsonError(DataException):
    """What a jsonpath meets in the JSON that it is applied to. `silent` leaves it out, filters make it unknown."""


class InvalidArgumentForSqlJsonDatetimeFunction(SqlJsonError):
    sqlstate = "22031"


class InvalidSqlJsonSubscript(SqlJsonError):
    sqlstate = "22033"


class NonNumericSqlJsonItem(SqlJsonError):
    sqlstate = "22036"


class SingletonSqlJsonItemRequired(SqlJsonError):
    sqlstate = "22038"


class SqlJsonArrayNotFound(SqlJsonError):
    sqlstate = "22039"


class SqlJsonMemberNotFound(SqlJsonError):
    sqlstate = "2203A"


class SqlJsonNumberNotFound(SqlJsonError):
    sqlstate = "2203B"


class SqlJsonObjectNotFound(SqlJsonError):
    sqlstate = "2203C"


class IntegrityConstraintViolation(SqlError):
    sqlstate = "23000"


class NotNullViolation(IntegrityConstraintViolation):
    sqlstate = "23502"


class ForeignKeyViolation(IntegrityConstraintViolation):
    sqlstate = "23503"


class UniqueViolation(IntegrityConstraintViolation):
    sqlstate = "23505"


class ExclusionViolation(IntegrityConstraintViolation):
    sqlstate = "23P01"


class CheckViolation(IntegrityConstraintViolation):
    sqlstate = "23514"


class TriggeredDataChangeViolation(SqlError):
    sqlstate = "27000"


class InvalidCursorState(SqlError):
    sqlstate = "24000"


class InvalidTransactionState(SqlError):
    sqlstate = "25000"


class ActiveSqlTransaction(InvalidTransactionState):
    sqlstate = "25001"


class ReadOnlySqlTransaction(InvalidTransactionState):
    sqlstate = "25006"


class NoActiveSqlTransaction(InvalidTransactionState):
    sqlstate = "25P01"


class IdleInTransactionSessionTimeout(InvalidTransactionState):
    sqlstate = "25P03"


class TransactionTimeout(InvalidTransactionState):
    sqlstate = "25P04"


class InFailedSqlTransaction(InvalidTransactionState):
    sqlstate = "25P02"


class InvalidSqlStatementName(SqlError):
    sqlstate = "26000"


class InvalidAuthorizationSpecification(SqlError):
    sqlstate = "28000"


class InvalidPassword(InvalidAuthorizationSpecification):
    sqlstate = "28P01"


class DependentObjectsStillExist(SqlError):
    sqlstate = "2BP01"


class InvalidCursorName(SqlError):
    sqlstate = "34000"


class InvalidSavepointSpecification(SqlError):
    sqlstate = "3B001"


class InvalidCatalogName(SqlError):
    sqlstate = "3D000"


class InvalidSchemaName(SqlError):
    sqlstate = "3F000"


class SerializationFailure(SqlError):
    sqlstate = "40001"


class StatementCompletionUnknown(SqlError):
    sqlstate = "40003"


class DeadlockDetected(SqlError):
    sqlstate = "40P01"


class SyntaxErrorOrAccessRuleViolation(SqlError):
    sqlstate = "42000"


class InsufficientPrivilege(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42501"


class InvalidGrantOperation(SqlError):
    sqlstate = "0LP01"


class SqlSyntaxError(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42601"


class InvalidName(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42602"


class DuplicateColumn(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42701"


class AmbiguousColumn(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42702"


class UndefinedColumn(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42703"


class UndefinedObject(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42704"


class DuplicateObject(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42710"


class DuplicateAlias(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42712"


class AmbiguousFunction(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42725"


class GroupingError(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42803"


class DatatypeMismatch(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42804"


class WrongObjectType(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42809"


class CannotCoerce(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42846"


class UndefinedFunction(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42883"


class ReservedName(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42939"


class UndefinedTable(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P01"


class UndefinedParameter(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P02"


class DuplicateCursor(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P03"


class DuplicateDatabase(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P04"


class DuplicatePreparedStatement(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P05"


class DuplicateSchema(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P06"


class DuplicateTable(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P07"


class InvalidForeignKey(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42830"


class AmbiguousParameter(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P08"


class InvalidCursorDefinition(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P11"


class InvalidColumnReference(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P10"


class InvalidSchemaDefinition(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P15"


class InvalidTableDefinition(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P16"


class InvalidObjectDefinition(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P17"


class DuplicateFunction(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42723"


class InvalidFunctionDefinition(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P13"


class GeneratedAlways(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "428C9"


class InvalidColumnDefinition(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42611"


class IndeterminateDatatype(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P18"


class InvalidRecursion(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P19"


class WindowingError(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P20"


class InsufficientResources(SqlError):
    sqlstate = "53000"


class SnapshotTooOld(SqlError):
    sqlstate = "72000"


class DiskFull(InsufficientResources):
    sqlstate = "53100"


class OutOfMemory(InsufficientResources):
    sqlstate = "53200"


class TooManyConnections(InsufficientResources):
    sqlstate = "53300"


class ConfigurationLimitExceeded(InsufficientResources):
    sqlstate = "53400"


class ProgramLimitExceeded(SqlError):
    sqlstate = "54000"


class StatementTooComplex(ProgramLimitExceeded):
    sqlstate = "54001"


class TooManyColumns(ProgramLimitExceeded):
    sqlstate = "54011"


class TooManyArguments(ProgramLimitExceeded):
    sqlstate = "54023"


class WithCheckOptionViolation(SqlError):
    sqlstate = "44000"


class ObjectNotInPrerequisiteState(SqlError):
    sqlstate = "55000"


class ObjectInUse(SqlError):
    sqlstate = "55006"


class CantChangeRuntimeParam(SqlError):
    sqlstate = "55P02"


class LockNotAvailable(SqlError):
    sqlstate = "55P03"


class OperatorIntervention(SqlError):
    sqlstate = "57000"


class QueryCanceled(OperatorIntervention):
    sqlstate = "57014"


class IdleSessionTimeout(OperatorIntervention):
    sqlstate = "57P05"


class AdminShutdown(OperatorIntervention):
    sqlstate = "57P01"


class CannotConnectNow(OperatorIntervention):
    sqlstate = "57P03"


class FdwInvalidOptionName(SqlError):
    sqlstate = "HV00D"


class IoError(SqlError):
    sqlstate = "58030"


class UndefinedFile(SqlError):
    sqlstate = "58P01"


class DuplicateFile(SqlError):
    sqlstate = "58P02"


class DataCorrupted(SqlError):
    sqlstate = "XX001"
