"""`SparkRuntime` whose Spark is a server of Spark Connect. Each process has sessions of its own there."""

from __future__ import annotations

import logging

import structlog

from adapter.engines.spark.cluster.connectors import hadoop_settings
from adapter.engines.spark.connect.connection import ConnectSpark, shown
from adapter.engines.spark.context_settings import session_settings
from adapter.engines.spark.frames import RunningSpark
from adapter.engines.spark.runtime import ARCHIVE, SparkRuntime

log = structlog.get_logger(__name__)

_HADOOP = "spark.hadoop."


class ConnectRuntime(SparkRuntime):
    """Connects to ``settings.remote`` when Spark is needed, and again when the server was away. What
    ``settings.conf`` says is said to each session."""

    def _begin(self) -> RunningSpark:
        url = self.settings.remote
        assert url is not None
        self.progress = f"connecting to {shown(url)}"
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
        place = self.settings.place
        settings = session_settings(place) | ({} if place is None else hadoop_settings(place))
        # A session hands its settings to Hadoop by Hadoop's own names.
        own = {name.removeprefix(_HADOOP): value for name, value in settings.items()}
        given = {name.removeprefix(_HADOOP): value for name, value in self.settings.conf}
        spark = ConnectSpark(url, own, given, self.settings.directory / ARCHIVE)
        log.info("spark.ready", server=shown(url))
        return spark

    def take_over(self) -> None:
        """See `SparkRuntime.take_over`: the server ends the sessions of processes that are gone by itself."""

    def _stop(self, spark: RunningSpark) -> None:
        assert isinstance(spark, ConnectSpark)
        self.progress = "stopped"
        spark.close()
