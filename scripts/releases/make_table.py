"""Writes wire/releases.py: the versions of each API that the brokers of each Kafka release advertise to clients.

    python scripts/releases/make_table.py            # needs Maven and Java 17

Each release is asked itself: the Java program beside this one, `Advertised`, runs with the release's own kafka-clients
(and kafka-server-common), which Maven downloads into .cache/releases.
"""

import shutil
import subprocess
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from odradek.wire.api_keys import KAFKA_VERSIONS

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".cache" / "releases"
TABLE: Final = ROOT / "wire" / "releases.py"

WITH_ZOOKEEPER: Final = (
    "0.11.0.3", "1.0.2", "1.1.1", "2.0.1", "2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2",
    "3.0.2", "3.1.2", "3.2.3",
)  # fmt: skip
"""Before 3.3 brokers with ZooKeeper are asked, since those without it were not for production."""
WITHOUT_ZOOKEEPER: Final = (
    "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1", "4.0.0", "4.1.0", "4.2.0", "4.3.1", "4.4.0",
)  # fmt: skip
OWN_FEATURES: Final = ("group.version", "kraft.version", "metadata.version", "transaction.version")
"""The features that Odradek has, too."""

POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>odradek.setup</groupId><artifactId>releases</artifactId>
<version>1</version><packaging>pom</packaging><build><plugins><plugin>
<groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId>
<configuration><outputDirectory>${{project.basedir}}/jars</outputDirectory><artifactItems>{items}</artifactItems>
</configuration></plugin></plugins></build></project>
"""
ITEM: Final = "<artifactItem><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></artifactItem>"
LOGGING: Final = ("org.slf4j", "slf4j-api", "1.7.36")
"""The classes of some releases need it."""
HEAD: Final = '''"""What each Kafka release advertises to clients.

Written by scripts/releases/make_table.py, which names the versions, from the releases' own classes.
"""

from typing import Final

from odradek.wire.api_keys import ApiKey

'''


def download() -> None:
    """Fill the folder with the jars of all releases."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    kafka = "org.apache.kafka"
    wanted = [LOGGING, *((kafka, "kafka-clients", each) for each in (*WITH_ZOOKEEPER, *WITHOUT_ZOOKEEPER))]
    wanted += [(kafka, "kafka-server-common", each) for each in WITHOUT_ZOOKEEPER]
    (FOLDER / "pom.xml").write_text(POM.format(items="".join([ITEM.format(*each) for each in wanted])))
    run("mvn", "-q", "-B", "-f", str(FOLDER / "pom.xml"), "dependency:copy")


def run(program: str, *arguments: str) -> str:
    """Run a program and return what it prints. Raises CalledProcessError, FileNotFoundError."""
    path = shutil.which(program)
    if path is None:
        raise FileNotFoundError(f"{program} is not installed")
    return subprocess.run([path, *arguments], check=True, capture_output=True, text=True).stdout  # noqa: S603 - ours


def asked(version: str) -> list[list[str]]:
    """The lines that `Advertised` prints with a release's jars, split into words."""
    names = [f"kafka-clients-{version}", f"kafka-server-common-{version}", "-".join(LOGGING[1:])]
    jars = [FOLDER / "jars" / f"{name}.jar" for name in names]
    listener = "ZK_BROKER" if version in WITH_ZOOKEEPER else "BROKER"
    program = Path(__file__).with_name("Advertised.java")
    answer = run("java", "-cp", ":".join(map(str, jars)), str(program), listener)
    return [line.split() for line in answer.splitlines()]


def short(version: str) -> str:
    """ "2.8" of "2.8.2"."""
    return ".".join(version.split(".")[:2])


def changes(found: dict[str, tuple[int, int] | None]) -> str:
    """Ranges by release, "2.0 0-6, 2.1 0-7": each from its release on, and "-" from a release without the API."""
    parts: list[str] = []
    last: tuple[int, int] | None = None
    for version, versions in found.items():
        if versions != last:
            parts.append(f"{version} {'-' if versions is None else '{}-{}'.format(*versions)}")
            last = versions
    return ", ".join(parts)


def table(answers: dict[str, list[list[str]]], names: Iterable[tuple[str, int]]) -> str:
    """The module's text."""
    lines = [f"RELEASES: Final = {tuple(map(short, answers))!r}", '"""Their names, the oldest first."""', ""]
    lines += ["VERSIONS: Final[dict[ApiKey, str]] = {"]
    for name, number in names:
        ranges = {
            short(version): next(
                ((int(words[3]), int(words[4])) for words in answer if words[:2] == ["api", str(number)]), None
            )
            for version, answer in answers.items()
        }
        text = changes(ranges)
        if text:
            parts = [f'"{part}"' for part in textwrap.wrap(text, 80, drop_whitespace=False)]
            lines.append(f"    ApiKey.{name}: {' '.join(parts)},")
    lines += [
        "}",
        '"""The lowest and highest version of each API, each from a release on; "-" where it was removed."""',
        "",
    ]
    lines += ["FEATURES: Final[dict[str, dict[str, tuple[int, int, int]]]] = {"]
    for version, answer in answers.items():
        features = {
            words[1]: tuple(map(int, words[2:]))
            for words in answer
            if words[0] == "feature" and words[1] in OWN_FEATURES
        }
        if features:
            lines.append(f"    {short(version)!r}: {dict(sorted(features.items()))!r},")
    lines += [
        "}",
        '"""The lowest and highest level of each feature, and the level of a new cluster; from 3.3 on."""',
        "",
    ]
    return HEAD + "\n".join(lines)


def main() -> None:
    """Download, ask all releases, write the table."""
    download()
    answers = {version: asked(version) for version in (*WITH_ZOOKEEPER, *WITHOUT_ZOOKEEPER)}
    TABLE.write_text(table(answers, [(key.name, int(key)) for key in KAFKA_VERSIONS]))
    run("ruff", "format", "-q", str(TABLE))


if __name__ == "__main__":
    main()
