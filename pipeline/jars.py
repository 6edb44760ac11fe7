"""The jars of Spark's connectors: downloaded once from a Maven repository, checked, and kept.

A session with jars from a folder starts offline and in seconds; one that resolves packages accesses a repository at
every start. The versions are compatible with each other (docs/spark.md).
"""

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from odradek.pipeline.errors import MissingError

REPOSITORY: Final = "https://repo1.maven.org/maven2"
REPOSITORY_VARIABLE: Final = "ODRADEK_MAVEN_REPOSITORY"
FOLDER_VARIABLE: Final = "ODRADEK_JARS"
CHUNK_BYTES: Final = 256 * 1024
TIMEOUT_S: Final = 60


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact of a Maven repository and the SHA-1 that the repository publishes for it."""

    group: str
    artifact: str
    version: str
    sha1: str
    size_bytes: int

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """The path in a repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


KAFKA: Final = (
    Jar("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.1.3", "fa6f5869ac9f8f183e1941e0a8faae6257fd1ca2", 491_701),
    # Some repositories lack 4.1.3; it is only needed for delegation tokens, and 4.0.0 works with every 4.x.
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "bb6fa56777661c2860cc5a9b7361fb1db7255554",
        64_975,
    ),
    Jar("org.apache.kafka", "kafka-clients", "3.9.1", "86ca079953ed5606257ff298c24666b26da6985b", 9_215_194),
    Jar("org.apache.commons", "commons-pool2", "2.12.1", "e5c7b6c9f5a4b59be2bba213fbec70b413376fc1", 152_289),
)
"""The jars for `format("kafka")`."""

ICEBERG: Final = (
    Jar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.1_2.13",
        "1.12.0",
        "9e395e373a9a99643bf413ca1f74fa0c034887b4",
        48_309_426,
    ),
)
"""The additional jars for Iceberg tables."""

Advance = Callable[[int], None]
"""Called with the number of bytes received since the last call."""


def folder() -> Path:
    """Return the folder of the jars: $ODRADEK_JARS/spark, else odradek/jars/spark in the user's cache."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named) / "spark"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "odradek" / "jars" / "spark"


def missing(jars: Iterable[Jar]) -> list[Jar]:
    """Return the jars that are not in the folder. Those in it were checked when they were downloaded."""
    here = folder()
    return [jar for jar in jars if not (here / jar.name).is_file()]


def fetch(jar: Jar, advance: Advance) -> Path:
    """Download one jar, and rename it into the folder at the end, so that an interrupted run leaves no partial file.

    Raises MissingError if the repository does not have it, cannot be reached or returns other bytes.
    """
    base = os.environ.get(REPOSITORY_VARIABLE, REPOSITORY).rstrip("/")
    url = f"{base}/{jar.path}"
    target = folder() / jar.name
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{jar.name}.{os.getpid()}.part")
    try:
        digest = _download(url, partial, advance)
        if digest != jar.sha1:
            raise MissingError(f"{url} has SHA-1 {digest} instead of {jar.sha1}: a broken or wrong repository")
        partial.replace(target)
    except OSError as error:  # URLError and HTTPError are OSErrors
        raise MissingError(f"{url} cannot be fetched: {_reason(error)} ({_advice(jar)})") from error
    finally:
        partial.unlink(missing_ok=True)
    return target


def _download(url: str, target: Path, advance: Advance) -> str:
    digest = hashlib.sha1(usedforsecurity=False)
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response, target.open("wb") as out:  # noqa: S310 - https
        while chunk := response.read(CHUNK_BYTES):
            digest.update(chunk)
            out.write(chunk)
            advance(len(chunk))
    return digest.hexdigest()


def _reason(error: OSError) -> str:
    return str(error.reason) if isinstance(error, urllib.error.URLError) else str(error)


def _advice(jar: Jar) -> str:
    return f"set {REPOSITORY_VARIABLE} to a mirror, or put {jar.name} into {folder()}"
