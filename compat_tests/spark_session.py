"""One small Spark session for the whole run, with the Kafka connector from a folder: no Ivy, no network."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from compat_tests import jvm_starts
from compat_tests.needs import needs
from compat_tests.processes import ROOT
from compat_tests.real_kafka import UnavailableError, jars_folder, java_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def quick_to_start() -> None:
    """Makes every JVM of Spark that this process starts, also indirectly, use only the quick compiler."""
    os.environ.setdefault("SPARK_CONF_DIR", str(ROOT / "compat_tests" / "spark_conf"))
    os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def connector_jars() -> list[str]:
    """The jars for ``spark.jars``. Raises UnavailableError when they were not fetched."""
    jars = sorted(str(jar) for jar in (jars_folder() / "spark").glob("*.jar"))
    if not jars:
        raise UnavailableError("no Spark connector jars: run scripts/fetch_jars.sh spark")
    return jars


@needs("spark", "java")
def start_spark() -> SparkSession:
    """A ``local[2]`` session. Raises UnavailableError without Java or the connector's jars."""
    java_command()
    jars = connector_jars()
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging = f"-Dlog4j2.configurationFile={ROOT}/compat_tests/spark-log4j2.properties"
    settings = {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {logging}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
    }
    builder = SparkSession.builder.master("local[2]").appName("odradek-compat")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with jvm_starts.alone():
        return builder.getOrCreate()
