"""What a type checker knows about the kit, as an editor of a user shows it."""

import re
import subprocess
import sys

SNIPPET = """
import odradek

async def use() -> None:
    with odradek.broker(topics={"a": 1, "b": {"partitions": 2, "configs": {"retention.ms": 1}}}) as kafka:
        reveal_type(kafka.records("t"))
        reveal_type(kafka.assert_produced("t"))
        reveal_type(kafka.assert_produced("t", count=2))
        reveal_type(kafka.produce("t", "x", headers={"a": b"x"}))
        reveal_type(kafka.produce_all("t", ["a", b"b", None, {"value": "x", "key": b"1"}]))
        reveal_type(kafka.committed("g"))
        reveal_type(kafka.lag("g"))
        reveal_type(await kafka.aio.assert_produced("t"))
        reveal_type(await kafka.aio.assert_produced("t", count=2))
        reveal_type(kafka.snapshot())
        kafka.produce("t", 5)
        kafka.records(topik="t")
        await kafka.aio.records("t", partition="0")
    with odradek.cluster() as cluster:
        reveal_type(cluster.records("t"))
"""


def test_a_type_checker_knows_every_result_and_finds_wrong_arguments(tmp_path):
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)
    assert re.findall(r'is "(.*)"$', done.stdout, re.MULTILINE) == [
        "list[Record]",
        "Record",
        "list[Record]",
        "Record",
        "list[Record]",
        "dict[TopicPartition, CommittedOffset]",
        "dict[TopicPartition, int]",
        "Record",
        "list[Record]",
        "Snapshot",
        "list[Record]",
    ], done.stdout + done.stderr
    errors = [line for line in done.stdout.splitlines() if " - error: " in line]
    assert len(errors) == 4, done.stdout  # one for the number, two for the misspelt name, one for the text
