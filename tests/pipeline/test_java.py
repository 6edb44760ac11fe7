"""The error message without Java, and the choice of Java."""

from pathlib import Path

import pytest

from odradek.pipeline import java
from odradek.pipeline.errors import MissingError


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("ID=debian\nVERSION_ID=12\n", "sudo apt-get install default-jre-headless"),
        ("ID=ubuntu\nID_LIKE=debian\n", "sudo apt-get install openjdk-21-jre-headless"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "sudo apt-get install openjdk-21-jre-headless"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "sudo dnf install java-21-openjdk-headless"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "sudo zypper install java-21-openjdk-headless"),
        ("ID=alpine\n", "sudo apk add openjdk21-jre-headless"),
        ("NAME=other\nID=plan9\n", java.ELSEWHERE),
    ],
    ids=["debian", "ubuntu", "mint", "rocky", "suse", "alpine", "another"],
)
def test_the_command_of_each_system(tmp_path: Path, release: str, command: str):
    (tmp_path / "os-release").write_text(release)
    assert java.how_to_get_it(tmp_path / "os-release", "linux") == command


def test_other_systems(tmp_path: Path):
    assert java.how_to_get_it(tmp_path / "missing", "linux") == java.ELSEWHERE
    assert java.how_to_get_it(tmp_path / "missing", "darwin") == "brew install openjdk@17"


def program(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.java
@pytest.mark.processes
def test_one_that_is_too_old_is_named_with_how_to_get_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    old = program(tmp_path / "old" / "bin" / "java", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java, "INSTALLED", tmp_path / "jvm")
    with pytest.raises(MissingError) as raised:
        java.find_java()
    assert f"({old} is Java 11). To get it: {java.how_to_get_it()}; or set JAVA_HOME" in str(raised.value)
    found = program(tmp_path / "jvm" / "java-21" / "bin" / "java", "21.0.1")
    assert java.find_java() == found
