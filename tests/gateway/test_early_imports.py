"""A worker thread imports late modules only once the broker serves; brokers inside tests do not import them.

The time until a broker is ready depends mostly on the number of modules it imports and of waits for the disk, so both
are counted here: see "The start" in docs/architecture.md.
"""

import json
import subprocess
import sys

import pytest

from odradek.gateway.early_imports import late_modules

SCRIPT = """
import json, os, sys, threading, time
import odradek.gateway.cli.serve
from odradek.gateway.process import run_broker
from odradek.gateway.config import load_config
from odradek.gateway.early_imports import late_modules

def imported():
    return [name for name in LATE if name in sys.modules]

def stop_when_done(running):
    while serves and imported() != LATE:
        time.sleep(0.01)
    running.stop()

def on_ready(running):
    at_ready.update(modules=sorted(sys.modules), late=imported(), syncs=len(syncs))
    threading.Thread(target=stop_when_done, args=(running,)).start()

def fsync(descriptor):
    syncs.append(descriptor)
    really_fsync(descriptor)

LATE = late_modules(is_alone=True)
at_ready, syncs, serves = {}, [], sys.argv[2] == "serves"
really_fsync, os.fsync = os.fsync, fsync
settings = {"log.dirs": sys.argv[1], "listeners": "PLAINTEXT://127.0.0.1:0"}
run_broker(load_config(overrides=settings, environ={}), on_ready, signals=serves)
print(json.dumps([at_ready, imported()]))
"""

MOST_AT_READY = 275
"""The limit on our own modules imported when a broker is ready. Raise it for modules that every broker needs."""

NOT_AT_READY = {
    "concurrent.futures": "no file is removed",
    "encodings.idna": "there is no name in another script",
    "rich": "nothing is printed in colour",
    "shlex": "there is nothing to advise",
    "kafka": "the client is for commands",
    "sqlalchemy": "the store is another one",
    "odradek.coordinator.groups.shard": "there is no group",
    "odradek.coordinator.metadata.controller.auto_create": "no topic is created",
    "odradek.coordinator.metadata.controller.balancing": "there is no other broker",
    "odradek.coordinator.metadata.controller.broker_changes": "there is no other broker",
    "odradek.coordinator.metadata.controller.create_topics": "no topic is created",
    "odradek.coordinator.metadata.controller.partition_change": "no partition changes",
    "odradek.coordinator.metadata.controller.producer_ids": "there is no producer",
    "odradek.coordinator.metadata.image.checkpoint": "there is no snapshot",
    "odradek.coordinator.quorum.voter_records": "the quorum has one voter",
    "odradek.coordinator.transactions.shard": "there is no transaction",
    "odradek.gateway.config.properties": "there is no file of settings",
    "odradek.gateway.coordinators.remote_transactions": "there is no other broker",
    "odradek.gateway.handlers.offset_commit": "no request has come",
    "odradek.gateway.lifecycle.broker": "there is no other controller",
    "odradek.gateway.metadata.joining": "there is no other controller",
    "odradek.gateway.metrics": "metrics are served nowhere",
    "odradek.gateway.peers.connection": "there is no other node",
    "odradek.gateway.peers.peer": "there is no other node",
    "odradek.gateway.quorum.messages": "the quorum has one voter",
    "odradek.gateway.replication.fetchers": "there is no other broker",
    "odradek.storage_backends.beside": "the broker itself has the store",
    "odradek.storage_backends.outbox": "the store is another one",
    "odradek.wire.messages.alter_partition": "there is no other broker",
    "odradek.wire.messages.create_topics": "no topic is created",
    "odradek.wire.messages.fetch": "no request has come",
    "odradek.wire.messages.write_txn_markers": "there is no transaction",
}


def started(data, kind):
    """The counts when a broker was ready, and the late modules that were imported when it had ended."""
    command = [sys.executable, "-c", SCRIPT, str(data), kind]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("start")


@pytest.fixture(scope="module")
def first_start(data):
    return started(data, "serves")


def test_late_modules_are_imported_after_the_start(first_start):
    at_ready, at_end = first_start
    assert at_ready["late"] == []
    assert at_end == late_modules(is_alone=True)


def test_none_are_imported_for_a_broker_inside_a_test(tmp_path):
    at_ready, at_end = started(tmp_path, "tests")
    assert at_end == at_ready["late"]


def test_a_broker_is_ready_with_few_modules(first_start):
    modules = set(first_start[0]["modules"])
    assert {name: why for name, why in NOT_AT_READY.items() if name in modules} == {}
    ours = [name for name in modules if name.partition(".")[0] == "odradek"]
    assert len(ours) <= MOST_AT_READY


def test_what_is_not_imported_is_there_to_be_imported():
    """Otherwise a renamed module would no longer be checked."""
    command = [sys.executable, "-c", "import sys; [__import__(each) for each in sys.argv[1:]]", *NOT_AT_READY]
    subprocess.run(command, check=True, timeout=60)


def test_the_disk_is_waited_for_six_times_with_an_empty_directory_and_never_again(first_start, data):
    """The format, the ids and the first log, each as a file and as a directory entry.

    LMDB's own syncs are not counted.
    """
    assert first_start[0]["syncs"] == 6
    assert started(data, "tests")[0]["syncs"] == 0
