"""`odradek produce` and `odradek consume` against a broker."""

import json
import sys
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from odradek.gateway.cli.main import cli


@pytest.fixture
def odradek(client, odradek):
    """The `odradek` fixture with `--client` set for produce and consume."""

    def run(command, *arguments, **options):
        chosen = ("--client", client) if command in {"produce", "consume"} else ()
        return odradek(command, *arguments, *chosen, **options)

    return run


def lines(result) -> list[str]:
    return result.stdout.splitlines()


def test_lines_go_in_and_come_out_in_order(odradek, topic):
    sent = odradek("produce", topic, "-p", "0", stdin="one\ntwo\r\n\nfour")
    assert "4 records (10 bytes) acknowledged" in sent.stderr
    assert sent.stdout == ""
    assert lines(odradek("consume", topic)) == ["one", "two", "", "four"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(odradek, topic, codec):
    odradek("produce", topic, "--codec", codec, "-p", "1", stdin="squeezed\n" * 100)
    assert lines(odradek("consume", topic)) == ["squeezed"] * 100


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks(odradek, topic, acks):
    odradek("produce", topic, "--acks", acks, stdin="a\nb\n")
    assert sorted(lines(odradek("consume", topic))) == ["a", "b"]


def test_keys_headers_tombstones_and_the_json_format(odradek, topic):
    odradek("produce", topic, "-K", ":", "--null-value", "-", "-H", "x=1", "-H", "y=ü", "-p", "0", stdin="a:1\nb:-\n")
    first, second = map(json.loads, lines(odradek("consume", topic, "-o", "json")))
    assert (first["key"], first["value"], first["offset"], first["partition"]) == ("a", "1", 0, 0)
    assert first["headers"] == [{"name": "x", "value": "1"}, {"name": "y", "value": "ü"}]
    assert (second["key"], second["value"]) == ("b", None)


def test_json_makes_a_round_trip_with_bytes_that_are_no_text(odradek, topic):
    odradek("produce", topic, "-p", "0", "-k", "key", "-H", "h=1", stdin=b"\xff\xfe\n")
    printed = odradek("consume", topic, "-o", "json").stdout
    assert '"value_base64":"//4="' in printed
    odradek("produce", topic, "--input", "json", "-p", "1", stdin=printed)
    copy = json.loads(odradek("consume", topic, "-p", "1", "-o", "json").stdout)
    original = json.loads(printed)
    assert {**copy, "partition": 0} == original


def test_a_template_with_escapes(odradek, topic):
    odradek("produce", topic, "-p", "1", "-k", "k", stdin="v\n")
    assert (
        odradek("consume", topic, "-o", r"{topic}-{partition}@{offset}\t{key}={value}").stdout == f"{topic}-1@0\tk=v\n"
    )
    assert odradek("consume", topic, "-o", r"{value}\0").stdout == "v\0"
    assert "unknown field {what}" in odradek("consume", topic, "-o", "{what}", code=2).stderr


def test_where_to_start(odradek, topic):
    odradek("produce", topic, "-p", "0", stdin="0\n1\n2\n3\n4\n")
    assert lines(odradek("consume", topic, "--from", "3")) == ["3", "4"]
    assert lines(odradek("consume", topic, "--from", "-2")) == ["3", "4"]
    assert lines(odradek("consume", topic, "--from", "99")) == []
    assert lines(odradek("consume", topic, "--from", "latest")) == []
    assert lines(odradek("consume", topic, "--max-messages", "2")) == ["0", "1"]
    assert odradek("consume", topic, "--from", "yesterday", code=2).stdout == ""


def test_start_at_a_time(odradek, topic):
    moments = [datetime(2013, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    records = [{"value": f"{moment:%d}", "timestamp": int(moment.timestamp() * 1000)} for moment in moments]
    odradek("produce", topic, "-p", "0", "--input", "json", stdin="\n".join(map(json.dumps, records)))
    assert lines(odradek("consume", topic, "--from", "2013-01-02")) == ["02", "03"]
    assert lines(odradek("consume", topic, "--from", "2013-01-02T00:00:00.001Z")) == ["03"]
    assert lines(odradek("consume", topic, "--from", (moments[2] + timedelta(days=1)).isoformat())) == []


def test_a_group_goes_on_where_it_stopped(odradek, topic):
    odradek("produce", topic, "-p", "0", stdin="1\n2\n3\n")
    assert lines(odradek("consume", topic, "-g", "resuming", "-n", "2")) == ["1", "2"]
    assert lines(odradek("consume", topic, "-g", "resuming")) == ["3"]
    assert lines(odradek("consume", topic, "-g", "resuming")) == []
    odradek("produce", topic, "-p", "1", stdin="4\n")
    assert lines(odradek("consume", topic, "-g", "resuming")) == ["4"]


def test_group_options_that_make_no_sense_are_wrong_usage(odradek, topic):
    assert "--partition" in odradek("consume", topic, "-g", "g", "-p", "0", code=2).stderr
    assert "earliest or latest" in odradek("consume", topic, "-g", "g", "--from", "7", code=2).stderr


def test_missing_topic_and_partition(odradek, topic):
    assert "'nowhere' does not exist" in odradek("consume", "nowhere", code=1).stderr
    assert "nowhere" not in odradek("topics", "list").stdout.split()
    assert "has no partition 7" in odradek("consume", topic, "-p", "7", code=1).stderr


def test_a_bad_line_is_named_and_what_came_before_it_is_kept(odradek, topic):
    assert "line 3: no '='" in odradek("produce", topic, "-K", "=", stdin="a=1\nb=2\noops\nc=3\n", code=1).stderr
    assert sorted(lines(odradek("consume", topic))) == ["1", "2"]
    assert "line 1:" in odradek("produce", topic, "--input", "json", stdin="{", code=1).stderr
    assert (
        "line 1: value_base64"
        in odradek("produce", topic, "--input", "json", stdin='{"value_base64":"?"}', code=1).stderr
    )


def test_lines_longer_than_allowed_are_refused_here_or_by_the_broker(odradek, topic):
    assert (
        "line 1 is longer than --max-record-bytes 10"
        in odradek("produce", topic, "--max-record-bytes", "10", stdin="x" * 11, code=1).stderr
    )
    odradek("produce", topic, "--max-record-bytes", "10", stdin="x" * 10)
    refused = odradek("produce", topic, "--max-record-bytes", "3000000", stdin="x" * 2_000_000, code=1)
    assert "MESSAGE_TOO_LARGE" in refused.stderr


def test_more_than_fits_unacknowledged(odradek, topic, monkeypatch):
    for module in ("kafka_python", "confluent"):
        monkeypatch.setattr(f"odradek.gateway.cli.clients.{module}.MAX_UNACKNOWLEDGED_RECORDS", 10)
    odradek("produce", topic, "-q", "-p", "0", stdin="".join(f"{number}\n" for number in range(1000)))
    assert lines(odradek("consume", topic)) == [str(number) for number in range(1000)]


def test_quiet_prints_nothing(odradek, topic):
    assert odradek("produce", topic, "--quiet", stdin="a\n").output == ""


def test_a_client_setting_by_name(odradek, topic):
    odradek("produce", topic, "-X", "client.id=me", "-X", "linger.ms=0", stdin="a\n")
    odradek("consume", topic, "-X", "fetch.max.wait.ms=10", "-X", "auto.commit.interval.ms=10")


def test_a_client_setting_that_there_is_not(bootstrap, topic):
    def refused(*client):
        return CliRunner().invoke(cli, ["produce", topic, "-b", bootstrap, "-X", "no.such=1", *client], input="")

    assert (refused().exit_code, refused("--client", "confluent-kafka").exit_code) == (1, 2)
    assert "has no such setting" in refused().stderr
    assert "confluent-kafka has no setting 'no_such'" in refused("--client", "confluent-kafka").stderr


def test_the_end_of_a_partition_is_found_behind_markers_and_aborted_records(bootstrap, odradek, topic):
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for value, end in ((b"kept", producer.commit_transaction), (b"aborted", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0
        end(30)
    assert lines(odradek("consume", topic, "--isolation", "read_committed")) == ["kept"]
    assert lines(odradek("consume", topic)) == ["kept", "aborted"]
    assert lines(odradek("consume", topic, "-g", "behind-markers", "--isolation", "read_committed")) == ["kept"]


def test_a_key_goes_to_the_same_partition_over_either_client(odradek, topic):
    records = "".join(f"{number}:{number}\n" for number in range(50))
    odradek("produce", topic, "-K", ":", stdin=records)
    found = [json.loads(line) for line in lines(odradek("consume", topic, "-o", "json"))]
    with_murmur2 = {int(each["key"]) for each in found if each["partition"] == 0}
    assert with_murmur2 == IN_PARTITION_0


IN_PARTITION_0 = {
    0, 2, 5, 6, 10, 11, 12, 15, 17, 18, 20, 21, 23, 26, 27, 34, 36, 37, 38, 41, 42, 43, 45, 47, 48, 49,
}  # fmt: skip
"""The keys of "0" to "49" that Kafka's default partitioner assigns to partition 0 of two."""


def test_without_confluent_kafka_records_still_move(bootstrap, topic, monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)  # as if it were not installed

    def run(*arguments, stdin=None):
        return CliRunner().invoke(cli, [*arguments, "-b", bootstrap], input=stdin)

    assert run("produce", topic, stdin="a\n").exit_code == 0
    assert run("consume", topic).stdout == "a\n"
    refused = run("produce", topic, "--client", "confluent-kafka", stdin="a\n")
    assert refused.exit_code == 2
    assert "pip install 'odradek[fast]'" in refused.stderr
