"""A Spark that is reached through Spark Connect: sessions of its own there, one for each mode of statements.

What a driver of our own has (kept plans, the scheduler's pools for classes of statements, other databases' drivers) is
not there: statements are planned anew each time, and what cannot be done is refused by name. Statements are cancelled
by tag. Whatever was made in the sessions (views, functions) goes with them: when the server has forgotten one (it was
started again, or nobody asked it anything for an hour), the whole connection is given up, and another one made.

PySpark's classes for Connect are imported in functions, so that nothing loads them without need. Everything blocks.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog

from adapter.engines.common.engine import RecordBatch
from adapter.engines.spark.cluster.archive import write_archive
from adapter.engines.spark.context_settings import MAX_RESULT_BYTES
from adapter.engines.spark.java.gateway import SparkUnavailable
from adapter.engines.spark.profiles import Mode, Profile, check_modes, profile_settings
from adapter.engines.spark.python.functions import define
from adapter.engines.spark.results import ResultTooLarge
from planner.errors import FeatureNotSupported
from planner.functions.engines.spark import used

log = structlog.get_logger(__name__)

RETRIES: Mapping[str, Any] = {
    "max_retries": 4,
    "initial_backoff": 100,
    "backoff_multiplier": 3.0,
    "max_backoff": 2000,
    "jitter": 100,
}
"""How often a call is repeated that did not reach the server, and after how many milliseconds: about 4 s."""

CHANNEL = [
    ("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]  # fmt: skip
"""A connection of its own for each session, so that one to a server that was away is not waited for by the next."""

RELATION_BYTES = 8 << 20
"""Rows of a plan cross the network with it, at each step that makes one; more are written to a file."""

_TO_QUOTE = re.compile(r"[\x00-\x20\"%<>\\^`{|}\x7f\[\]?#]")
"""Characters of a path that Java's URIs quote."""


class ConnectSpark:
    """`RunningSpark` behind the server at `url`. `settings` are those that statements count on, `given` the
    operator's, which stand above all. Raises SparkUnavailable when there is no server that takes them."""

    most_relation_bytes = RELATION_BYTES

    def __init__(self, url: str, settings: Mapping[str, str], given: Mapping[str, str], archive: Path) -> None:
        self._url = url
        self._settings = settings
        self._given = given
        self._archive = archive
        self._lock = threading.RLock()
        self._sessions: dict[Mode, Any] = {}
        self._defined: dict[Mode, set[str]] = {}
        self._with_code: set[Mode] = set()
        self._groups: dict[str, Any] = {}
        self._entered = threading.local()
        self._gone = False
        self._cores = 2
        first = Mode(Profile.TINY)
        with _errors(url):
            session = self.session(first)
            # NOTE: the one thing that says how many tasks run at once, whatever the cluster is.
            self._cores = max(1, int(session.range(1 << 16).selectExpr("spark_partition_id() AS p").distinct().count()))

    @property
    def alive(self) -> bool:
        """See `RunningSpark.alive`."""
        return not self._gone

    def session(self, mode: Mode) -> Any:
        """See `RunningSpark.session`."""
        with self._lock:
            if mode not in self._sessions:
                check_modes(len(self._sessions))
                self._sessions[mode] = self._new_session(mode)
                self._defined[mode] = set()
            return self._sessions[mode]

    def _new_session(self, mode: Mode) -> Any:
        from pyspark.sql.connect.client.core import DefaultChannelBuilder
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

        session: Any = SparkSession(connection=DefaultChannelBuilder(self._url, CHANNEL))
        session.client.set_retry_policies([DefaultPolicy(**RETRIES)])
        chosen = {**self._settings, **profile_settings(mode, self._cores), **self._given, **dict(mode.settings)}
        session.conf._set_all(configs=chosen, silent=False)
        return session

    def enter(self, mode: Mode, group: str, *, pool: str | None, klass: str, limited: bool) -> None:
        """See `RunningSpark.enter`."""
        if limited:
            raise FeatureNotSupported(
                "temp_file_limit cannot be kept through Spark Connect",
                detail="The server does not tell what a statement writes to temporary files.",
                hint="Set temp_file_limit to -1, or start the server with a Spark master (--spark-master).",
            )
        if pool:
            raise FeatureNotSupported("pools of Spark's scheduler cannot be named through Spark Connect")
        session = self.session(mode)
        session.clearTags()
        session.addTag(group)
        self._entered.session, self._entered.group = session, group
        with self._lock:
            self._groups[group] = session

    def leave(self) -> None:
        """See `RunningSpark.leave`."""
        group = getattr(self._entered, "group", None)
        if group is not None:
            self._entered.session.clearTags()
            self._entered.group = None
            with self._lock:
                self._groups.pop(group, None)

    def define(self, mode: Mode, sql: str) -> None:
        """See `RunningSpark.define`."""
        from pyspark.sql.connect.functions import udf

        names = used(sql) - self._defined[mode]
        if names:
            self._send_code(mode)
            session = self.session(mode)

            def typed(function: Any, result: str, *, useArrow: bool) -> Any:
                # NOTE: PySpark itself would ask a driver of this process what the type is.
                return udf(function, session._parse_ddl(result), useArrow=useArrow)

            define(session, names, typed)
            self._defined[mode] |= names

    def frame(self, mode: Mode, sql: str) -> Any:
        """See `RunningSpark.frame`."""
        return self.session(mode).sql(sql)

    def relation(self, mode: Mode, rows: pa.Table, ddl: str) -> Any:
        """See `RunningSpark.relation`."""
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.plan import LocalRelation

        return DataFrame(LocalRelation(rows, ddl), self.session(mode))

    def collect(self, frame: Any) -> list[RecordBatch]:
        """See `RunningSpark.collect`."""
        client = frame.sparkSession.client
        batches: list[RecordBatch] = []
        size = 0
        with contextlib.closing(client.to_table_as_iterator(frame._plan.to_proto(client), {})) as answers:
            for answer in answers:
                if isinstance(answer, pa.Table):
                    batches += answer.to_batches()
                    size += answer.nbytes
                    if size > MAX_RESULT_BYTES:
                        raise ResultTooLarge
        return batches

    def run_tasks(self, mode: Mode, frame: Any, task: Callable[..., Any], answers: str) -> list[RecordBatch]:
        """See `RunningSpark.run_tasks`."""
        self._send_code(mode)
        return self.collect(frame.mapInArrow(task, answers))

    def shown_path(self, location: str) -> str:
        """See `RunningSpark.shown_path`."""
        return _TO_QUOTE.sub(lambda found: f"%{ord(found[0]):02X}", location)

    def check_databases(self) -> None:
        """See `RunningSpark.check_databases`."""
        raise FeatureNotSupported(
            "tables of other databases cannot be read through Spark Connect",
            hint="Start the server with a Spark master (--spark-master) that has their driver.",
        )

    def temporary_bytes(self, group: str) -> Mapping[int, int]:
        """See `RunningSpark.temporary_bytes`: no statement that is `limited` gets as far as writing any."""
        return {}

    def cancel_group(self, group: str) -> None:
        """See `RunningSpark.cancel_group`."""
        with self._lock:
            session = self._groups.get(group)
        if session is None:
            return
        try:
            session.interruptTag(group)
        except Exception as error:  # noqa: BLE001 - the statement itself meets the same, and says so
            log.warning("spark.not_cancelled", group=group, reason=str(error).split("\n", 1)[0])

    def give_up_if_broken(self) -> bool:
        """See `RunningSpark.give_up_if_broken`: asks the server whether it still knows the sessions."""
        with self._lock:
            sessions = list(self._sessions.values())
        try:
            for session in sessions:
                session.conf.get("spark.sql.session.timeZone")
        except Exception as error:  # noqa: BLE001 - a server that refuses to say this can do nothing for us
            if not self._gone:
                log.warning("spark.connection_lost", server=shown(self._url), reason=str(error).split("\n", 1)[0])
            self._gone = True
        return self._gone

    def close(self) -> None:
        """Ends the sessions, where the server is there to hear of it."""
        self._gone = True
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            # NOTE: best effort by its own contract, it raises nothing.
            session.stop()

    def _send_code(self, mode: Mode) -> None:
        """Gives the tasks of the sessions of `mode` this code."""
        with self._lock:
            if mode in self._with_code:
                return
            if not self._archive.exists():
                self._archive.parent.mkdir(parents=True, exist_ok=True)
                write_archive(self._archive.with_suffix(".new"))
                self._archive.with_suffix(".new").rename(self._archive)
            self.session(mode).addArtifacts(str(self._archive), pyfile=True)
            self._with_code.add(mode)


def shown(url: str) -> str:
    """`url` without its parameters, which may hold a token."""
    return url.partition(";")[0].rstrip("/")


@contextlib.contextmanager
def _errors(url: str) -> Any:
    """Raises SparkUnavailable for what the first words with a server raise."""
    try:
        yield
    except ImportError as error:
        raise SparkUnavailable(
            f"{str(error).splitlines()[0]} (Spark Connect needs the packages of requirements-connect.lock)"
        ) from error
    except Exception as error:
        # gRPC's own errors are several lines, of which the details say what was wrong.
        details = re.search(r'^\s*details = "(.*)"$', str(error), re.MULTILINE)
        words = details[1] if details else str(error).strip().split("\n", 1)[0]
        raise SparkUnavailable(f"the Spark Connect server {shown(url)}: {words}") from error
