"""Starts a Spark session that reads and writes topics, with Java, jars and settings."""

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odradek.pipeline import jars
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import MissingError
from odradek.pipeline.java import find_java
from odradek.pipeline.setup import prepare
from odradek.pipeline.starting import check_answers, check_master, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[*]"
LOCAL: Final = "local"
READ_OPTIONS: Final[Mapping[str, str]] = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": "16777216",
    "kafka.fetch.max.bytes": "67108864",
}
"""Options of `format("kafka")` with which long topics are read two to three times as fast: Spark requests a log's start
and end with every poll, and these reduce the number of polls.
"""

_LOGGING: Final = Path(__file__).parent / "spark-log4j2.properties"
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOGGING_OPTION: Final = f"-Dlog4j2.configurationFile={_LOGGING}"
_LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {_LOGGING_OPTION}",
    "spark.sql.shuffle.partitions": "4",
}


def spark_session(
    bootstrap: str | None = None,
    data: str | Path | None = None,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    connection: Connection | None = None,
    packages: Sequence[jars.Jar] = (),
    app_name: str = "odradek",
) -> "SparkSession":
    """Return a session for notebooks and jobs, with the Kafka connector and `format("odradek")`.

    `bootstrap`, or a whole `connection`, is stored in the setting `spark.odradek.bootstrap`. `data`, a broker's data
    directory, is the default path of `format("odradek")`. `master` defaults to that of spark-submit, else `local[*]`.
    `packages` are jars in addition to the connector. `conf` overrides everything else, but its `spark.jars` are added
    to these jars. An existing session is returned, after applying the settings that Spark can change at run time.

    Missing jars are downloaded first, with a progress bar on a terminal. Raises MissingError if a package, Java or a
    jar is missing, PipelineError for a `master` that is invalid or does not answer, and if Spark does not start.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise MissingError("this needs Spark: pip install 'odradek[spark]'")
    given = dict(conf or {})
    chosen = given.get("spark.master") or master or (None if _is_submitted() else DEFAULT_MASTER)
    if chosen is not None:
        check_master(chosen)
        check_answers(chosen)
    _choose_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)  # pyright: ignore[reportUnknownMemberType]
    if chosen is not None:
        builder = builder.master(chosen)
    if (chosen or "").startswith(LOCAL):
        # Else workers run the python3 of the PATH, which may not have this one's packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    files = [str(path) for path in prepare([*jars.KAFKA, *packages])]
    settings: dict[str, Any] = {**_SETTINGS, **_settings_of(chosen)}
    settings |= _own_settings(bootstrap, data, connection) | given
    settings["spark.jars"] = ",".join([*files, *filter(None, [given.get("spark.jars")])])
    session = start(builder.config(map=settings))
    _register_segments(session, data)
    return session


def _settings_of(master: str | None) -> Mapping[str, str]:
    """Return the settings that depend on the master; the driver started here only logs errors."""
    if master is None:
        return {}
    return _LOCAL_SETTINGS if master.startswith(LOCAL) else {"spark.driver.extraJavaOptions": _LOGGING_OPTION}


def _register_segments(session: "SparkSession", data: str | Path | None) -> None:
    """Register `format("odradek")` in the session."""
    from odradek.pipeline.segments.source import SegmentSource

    session.dataSource.register(SegmentSource if data is None else SegmentSource.of(data))


def read_options(connection: Connection) -> dict[str, str]:
    """Return the options with which jobs read topics by `format("kafka")`."""
    return {**READ_OPTIONS, **connection.for_spark()}


def _own_settings(bootstrap: str | None, data: str | Path | None, connection: Connection | None) -> dict[str, str]:
    address = connection.bootstrap if connection is not None else bootstrap
    named = {"spark.odradek.bootstrap": address, "spark.odradek.data": None if data is None else str(data)}
    return {name: value for name, value in named.items() if value is not None}


def _is_submitted() -> bool:
    """True if spark-submit runs this program, and has set the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _choose_java() -> None:
    """Make Spark use the Java that `find_java` returns, not the first of the PATH, which may be too old or too new."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.resolve().parent.parent)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
