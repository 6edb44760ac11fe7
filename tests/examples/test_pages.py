"""README.md is short and correct, and the pages' links are valid. test_readme_as_read.py runs README's blocks."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek import Record
from odradek.coordinator.configs.tables import BROKER_CONFIGS
from odradek.gateway.cli.main import cli
from odradek.gateway.testing.kit.expecting import Expectation, Search

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
README = (ROOT / "README.md").read_text()


def code_blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_readme_is_short():
    before_tables = README[: README.index("\n|")]
    assert len(before_tables.split()) <= 500
    assert len(README.splitlines()) <= 150


def test_the_picture_in_readme_is_of_a_run_in_which_all_agreed():
    [path] = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    words = html.unescape(re.sub(r"<[^>]+>", " ", (ROOT / path).read_text())).replace("\xa0", " ")
    assert "$ odradek demo" in re.sub(r" +", " ", words)
    assert "agree: nothing lost, nothing twice" in words
    assert "http" not in re.sub(r'xmlns="[^"]+"', "", (ROOT / path).read_text().partition("<style>")[2])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            linked = (page.parent / path).resolve() if path else page
            assert linked.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(linked.read_text()), f"{page.name} links to {target}"


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_readme():
    reached = set(re.findall(r"\]\((docs/[^)#]+\.md)", README))
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} == reached


def test_the_test_in_readme_passes(tmp_path):
    [snippet] = code_blocks("python")
    (tmp_path / "test_readme.py").write_text(snippet)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "test_readme.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_code_in_the_page_on_testing_passes(tmp_path):
    blocks = code_blocks("python", (ROOT / "docs" / "testing.md").read_text())
    for number, block in enumerate(blocks):
        (tmp_path / f"test_block_{number}.py").write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-W", "ignore"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    count = sum(len(re.findall(r"^def test_", block, re.MULTILINE)) for block in blocks)
    assert f"{count} passed" in done.stdout, done.stdout + done.stderr


def test_the_message_in_the_page_on_testing_is_as_printed():
    [block] = code_blocks("text", (ROOT / "docs" / "testing.md").read_text())
    records = [Record("orders", 0, offset, 0, b"%d" % (100 + offset), b"x", ()) for offset in range(12)]
    records[3] = Record("orders", 0, 3, 0, b"7", b"payd", (("source", b"web"),))
    records[9] = Record("orders", 0, 9, 0, b"8", b"paid", ())
    search = Search("orders", Expectation({"key": "7", "value": "paid"}), None)
    search.take(records)
    shown, rest = block.removeprefix("AssertionError: ").split("  …")
    assert search.failure(5.0).startswith(shown)
    assert not rest.strip()


def test_the_commands_in_readme_are_targets_of_the_makefile():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    lines = [line for block in code_blocks("sh") for line in block.splitlines()]
    named = {line.split()[1] for line in lines if line.startswith("make ")}
    assert named == {"demo", "pipeline-demo", "sql-demo", "cluster-demo", "test"}
    assert named <= set(targets)


def test_the_page_on_spark_names_the_versions_that_are_tested():
    page, pom = (ROOT / "docs" / "spark.md").read_text(), (ROOT / "scripts" / "spark-jars.xml").read_text()
    properties = dict(re.findall(r"<([\w.]+version)>([\d.]+)<", pom))
    tested = re.findall(r"<artifactId>(?!spark-connector-jars)([^<]+)</artifactId>\s*<version>([^<]+)<", pom)
    assert len(tested) == 4
    for artifact, version in tested:
        resolved = properties.get(version.strip("${}"), version)
        assert re.search(rf":{re.escape(artifact)}` \| {re.escape(resolved)}\b", page), artifact


@pytest.mark.parametrize("page", ["operating.md", "testing.md", "spark.md", "tools.md"])
def test_the_settings_of_a_page_exist(page):
    named = set(re.findall(r"`(odradek\.[a-z.]+)`", (ROOT / "docs" / page).read_text()))
    assert named - set(BROKER_CONFIGS) == set()


def test_the_limits_in_the_page_on_operating_have_these_defaults():
    page = (ROOT / "docs" / "operating.md").read_text()
    table = page[page.index("## Limits") : page.index("**File descriptors.**")]
    rows = re.findall(r"^\| (`[^|]*`) \| ([\d, ]+) \|", table, re.MULTILINE)
    settings = [pair for names, values in rows for pair in zip(names.split(", "), values.split(", "), strict=True)]
    assert len(settings) >= 9
    for name, default in settings:
        assert BROKER_CONFIGS[name.strip("`")].default == default


@pytest.mark.parametrize("page", ["operating.md", "testing.md", "tools.md"])
def test_the_commands_and_options_of_a_page_exist(page):
    """Checks `odradek COMMAND …` in lines of console blocks and in backquotes: every command and `--option`."""
    text = (ROOT / "docs" / page).read_text()
    for command in re.findall(r"(?:`|\$ )odradek ([a-z]+)([^`\n#]*)", text):
        name, rest = command
        shown = CliRunner().invoke(cli, [name, "--help"])
        assert shown.exit_code == 0, f"{page}: odradek {name}"
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in shown.output, f"{page}: odradek {name} {option}"
