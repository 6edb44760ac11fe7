"""Kafka's administrative tools: log dirs, quotas, users, features, leaders, reassignments, ACLs, tokens, the quorum.

Each tool is a separate JVM, so it is started only for behaviour that needs the tool; requests and their errors are
compared one by one in `every_version_admin` and `every_version_security`.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from compat_tests.clients import Record, kafka_python
from compat_tests.comparison import CaseBook, Side
from compat_tests.java_tools import properties_file, run_tool
from odradek.wire.api_keys import ADVERTISED, KAFKA_VERSIONS, ApiKey

ROW = "administration"


def add_admin_cases(book: CaseBook) -> None:
    """Adds the cases to the book of the Java tools."""
    for run in (quotas_and_users, subscriptions_and_groups, log_dirs, features, leaders, reassignments, looking_around):
        book.add(ROW, run, name=run.__name__.replace("_", "-"))


def shown(side: Side, name: str, *arguments: str, hidden: str = r"(?!)") -> Any:
    """The exit code of a tool and its output, without error messages and matches of `hidden`."""
    result = run_tool(name, side.bootstrap, *arguments, timeout_s=120)
    if result.code != 0 or "Exception" in result.stdout + result.stderr:
        return result.code, sorted(set(re.findall(r"\b\w+Exception\b", result.stdout + result.stderr)))
    return result.code, [re.sub(hidden, "...", line.strip()) for line in result.lines]


def quotas_and_users(side: Side) -> Any:
    """Quotas and SCRAM users, set, described and removed with kafka-configs."""
    user = ("--entity-type", "users", "--entity-name", side.name("user"))
    alter = ("kafka-configs", "--alter", *user)
    return {
        "quota": shown(side, *alter, "--add-config", "producer_byte_rate=1000,request_percentage=50.5"),
        "scram": shown(side, *alter, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]"),
        "removed": shown(side, *alter, "--delete-config", "producer_byte_rate"),
        "left": _sorted_values(shown(side, "kafka-configs", "--describe", *user)),
    }


def _sorted_values(result: Any) -> Any:
    """The order of quotas is not specified."""
    code, lines = result
    return code, sorted(" are ".join(_in_order(part) for part in line.split(" are ")) for line in lines)


def _in_order(part: str) -> str:
    return ", ".join(sorted(part.split(", ")))


def subscriptions_and_groups(side: Side) -> Any:
    """Client metrics subscriptions and groups as config resources."""
    metrics = ("--entity-type", "client-metrics", "--entity-name", side.name("metrics"))
    group = ("--entity-type", "groups", "--entity-name", side.name("group"))
    change = "interval.ms=60000,metrics=[a.,b.],match=[client_id=x.*]"
    return {
        "metrics": shown(side, "kafka-configs", "--alter", *metrics, "--add-config", change),
        "described": shown(side, "kafka-client-metrics", "--describe", "--name", side.name("metrics")),
        "group": shown(side, "kafka-configs", "--alter", *group, "--add-config", "consumer.session.timeout.ms=46000"),
        "group described": shown(side, "kafka-configs", "--describe", *group),
    }


def log_dirs(side: Side) -> Any:
    """The directories, and the partitions in them that are not empty."""
    topic = side.topic(partitions=2)
    kafka_python.produce(side.bootstrap, topic, [Record(b"%d" % n, partition=0) for n in range(10)])
    code, lines = shown(side, "kafka-log-dirs", "--describe", "--topic-list", topic)
    (described,) = [json.loads(line) for line in lines if line.startswith("{")]
    (directory,) = described["brokers"][0]["logDirs"]
    parts = sorted(directory.pop("partitions"), key=lambda part: part["partition"])
    return {
        "code": code,
        "brokers": [broker["broker"] for broker in described["brokers"]],
        "error": directory["error"],
        "absolute": directory["logDir"].startswith("/"),
        "partitions": [{**part, "size": part["size"] > 0} for part in parts],
    }


def features(side: Side) -> Any:
    """The level of metadata.version, which cannot be downgraded."""
    _, described = shown(side, "kafka-features", "describe", hidden=r"Epoch: .*")
    return {
        "described": [re.sub(r"\s+", " ", line) for line in described if "metadata.version" in line],
        "downgrade": shown(side, "kafka-features", "downgrade", "--feature", "metadata.version=29", "--dry-run")[0],
    }


def leaders(side: Side) -> Any:
    """An election that is not needed."""
    one = ("--topic", side.topic(), "--partition", "0")
    return shown(side, "kafka-leader-election", "--election-type", "preferred", *one)


def reassignments(side: Side) -> Any:
    """A reassignment to the current replicas."""
    topic = side.topic()
    move = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "move.json"
        path.write_text(json.dumps(move))
        plan = ("--reassignment-json-file", str(path))
        return {
            step: shown(side, "kafka-reassign-partitions", *plan, f"--{step}", hidden=r'"log_dirs":\[[^]]*\]')
            for step in ("execute", "verify")
        }


def looking_around(side: Side) -> Any:
    """The output of other tools: no security is configured, and the quorum has one node."""
    quorum = shown(side, "kafka-metadata-quorum", "describe", "--status")[1]
    kept = ("LeaderId", "MaxFollowerLag:", "CurrentObservers")
    versions = run_tool("kafka-broker-api-versions", side.bootstrap).stdout
    supported = {int(key) for key in re.findall(r"\((\d+)\): \d", versions)}
    with properties_file() as config:
        token = ("--create", "--max-life-time-period", "-1", "--command-config", config)
        return {
            "quorum": [line for line in quorum if line.startswith(kept)],
            "acls": shown(side, "kafka-acls", "--list"),
            "tokens": shown(side, "kafka-delegation-tokens", *token),
            "transactions": shown(side, "kafka-transactions", "list")[0],
            "by pattern": [
                shown(side, "kafka-transactions", "list", "--transactional-id-pattern", pattern)
                for pattern in ("nobody's-.*", "[")
            ],
            "versions": {ApiKey(key).name: key in supported for key in ADVERTISED if key in KAFKA_VERSIONS},
            "at least 50 of Kafka's keys": len(supported) >= 50,
        }
