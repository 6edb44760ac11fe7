"""The workflows run what exists: the tier's command, on the systems and versions that page and metadata name."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import yaml

from tests.tiers import TIERS

ROOT = Path(__file__).resolve().parent.parent
QUICK: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "quick.yml").read_text())
JOB: dict[str, Any] = QUICK["jobs"]["unit"]
SYSTEMS = {"ubuntu-latest": "Linux", "macos-latest": "macOS", "windows-latest": "Windows"}


def commands() -> list[list[str]]:
    return [shlex.split(step["run"]) for step in JOB["steps"] if "run" in step]


def test_the_tests_are_those_of_make_test_unit():
    [tests] = [command for command in commands() if "pytest" in command]
    recipe = (ROOT / "Makefile").read_text()
    two = re.search(r"^TWO := ([^#\n]*)", recipe, re.MULTILINE)
    assert two is not None
    [unit] = re.findall(r"^test-unit:.*\n(?:\t@echo.*\n)*\t@\$\(RUN\) (.*)", recipe, re.MULTILINE)
    assert tests == ["uv", "run", "--no-sync", *shlex.split(unit.replace("$(TWO)", two[1]))]
    assert tests[tests.index("-m") + 1] in TIERS


def test_the_packages_are_the_locked_ones():
    assert ["uv", "sync", "--locked", "--all-extras"] in commands()


def test_each_system_runs_each_python_that_the_package_states():
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = {each.rpartition(" ")[2] for each in metadata["classifiers"] if re.search(r":: 3\.\d+$", each)}
    matrix = JOB["strategy"]["matrix"]
    assert set(matrix["python"]) == stated
    assert set(matrix["system"]) == SYSTEMS.keys()
    page = (ROOT / "docs" / "platforms.md").read_text()
    assert [name for name in [*SYSTEMS.values(), *stated] if name not in page] == []
