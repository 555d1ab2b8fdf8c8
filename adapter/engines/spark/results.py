"""Collecting a small Spark result as Arrow, and turning Spark's errors into ours."""

from __future__ import annotations

import re
from typing import Any

from adapter.engines.common.engine import RecordBatch
from adapter.engines.common.executor_files import TaskFailed
from adapter.engines.spark.databases.errors import remote_error
from adapter.lake.databases import RemoteRows
from adapter.lake.file_rows import FileRows
from planner.common_errors import canceled
from planner.dialects.error_text import END
from planner.errors import IoError, ObjectNotInPrerequisiteState, OutOfMemory, SqlError
from planner.lowering.engine_errors import translate

_TOO_LARGE = "spark.driver.maxResultSize"

_OUT_OF_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError|\bSparkOutOfMemoryError\b|\[UNABLE_TO_ACQUIRE_MEMORY\]")
"""The heap is full, or what tasks may have of it."""

_STORE_TROUBLE = re.compile(r"^storage\.errors\.\w+: (.+)$", re.MULTILINE)
"""What the object store refused a task of ours."""


_FAILED_TASK = re.compile(rf"{TaskFailed.__module__}\.{TaskFailed.__name__}: (TG:[^{END}]*{END})")
"""An error of ours that a task of ours has raised."""


class SparkStopped(ObjectNotInPrerequisiteState):
    """Spark's process ended under a statement."""


class ResultTooLarge(Exception):
    """A collected result outgrew spark.driver.maxResultSize; nothing of it was handed out."""


def collect(frame: Any) -> list[RecordBatch]:
    """The rows of the Java Dataset `frame`, in order. Raises ResultTooLarge, or what Spark raises."""
    from pyspark.sql.pandas.serializers import ArrowCollectSerializer
    from pyspark.util import _load_from_socket

    port, secret, server = frame.collectAsArrowToPython()
    failure: BaseException | None = None
    batches: list[RecordBatch] = []
    try:
        with _load_from_socket((port, secret), ArrowCollectSerializer()) as stream:
            batches = list(stream)
    except Exception as error:  # noqa: BLE001 - the JVM's own error, which follows, says more
        failure = error
    try:
        server.getResult()
    except Exception as error:
        if _TOO_LARGE in str(error):
            raise ResultTooLarge from error
        raise
    if failure is not None:
        raise failure
    return batches


def spark_error(error: BaseException) -> SqlError:
    """The SqlError for what PySpark raised."""
    if isinstance(error, SqlError):
        return error
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    text = str(error)
    if "SPARK_JOB_CANCELLED" in text or "cancelled part of cancelled job group" in text:
        return canceled()
    if _OUT_OF_MEMORY.search(text):
        return OutOfMemory("out of memory", detail="Spark's memory did not suffice for the statement.")
    failed = _FAILED_TASK.search(text)
    if failed is not None:
        return translate("spark", failed[1])
    trouble = _STORE_TROUBLE.search(text)
    if trouble is not None:
        return IoError(trouble[1])
    if isinstance(error, Py4JJavaError):
        return _java_error(error.java_exception, text)
    if isinstance(error, PySparkException):
        parameters = error.getMessageParameters() or {}
        return translate("spark", _message(text), error.getCondition(), dict(parameters))
    if isinstance(error, Py4JError):
        return translate("spark", _message(text))
    return translate("spark", text)


def told_error(error: BaseException) -> SqlError | None:
    """`spark_error`; None where the JVM is gone that knows more."""
    from py4j.protocol import Py4JError

    try:
        return spark_error(error)
    except (Py4JError, OSError):
        return None


def trouble_with(rows: object, error: BaseException) -> SqlError | None:
    """What `error` says of rows that are not in our tables; None when it is not about them."""
    match rows:
        case FileRows():
            return rows.trouble(error)
        case RemoteRows():
            return remote_error(error, rows.database)
    return None


def _java_error(exception: Any, text: str) -> SqlError:
    """The innermost cause that has an error class says what happened; wrappers only say that a job failed."""
    condition: str | None = None
    message = text
    parameters: dict[str, str] = {}
    while exception is not None:
        found = _condition(exception)
        if found is not None:
            condition = found
            message = exception.getMessage() or text
            parameters = dict(exception.getMessageParameters() or {})
        elif condition is None:
            message = exception.toString()
        exception = exception.getCause()
    return translate("spark", _message(message), condition, parameters)


def _condition(exception: Any) -> str | None:
    from py4j.protocol import Py4JError

    try:
        found: str | None = exception.getCondition()
    except Py4JError:
        return None
    return found


def _message(text: str) -> str:
    """The message without the JVM stack trace below it."""
    return text.split("\nJVM stacktrace:", 1)[0].split("\n\tat ", 1)[0].strip()
