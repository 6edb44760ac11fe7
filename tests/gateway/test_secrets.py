"""The password in a storage URL is in nothing that a broker prints, answers or shows to other users."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from gateway_brokers import ProcessBroker, environment, free_port
from gateway_client import RawClient

from odradek.gateway.cli.process_title import masked
from odradek.storage_backends.interface import StoreError
from odradek.storage_backends.opener import StoreUrlError, open_beside, open_store
from odradek.storage_backends.urls import masked_url
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]

MARK = "Sw0rdfish"


def with_password(url: str) -> str:
    """The URL with a password, which the test's server does not check, in both of its places."""
    head, at, tail = url.partition("@")
    return f"{head}:{MARK}{at}{tail}?sslpassword={MARK}-too"


def run(*arguments: str, **settings: str) -> str:
    """The output of a command, and its log."""
    command = [sys.executable, "-m", "odradek", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={**environment(), **settings}
    )
    return done.stdout + done.stderr


def command_line(process_id: int) -> str:
    return Path(f"/proc/{process_id}/cmdline").read_text(encoding="utf-8").replace("\0", " ")


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_output_of_a_broker_contains_the_password(tmp_path, postgres, form):
    metrics = free_port()
    options = ["--metrics", f"127.0.0.1:{metrics}", "--log-format", form, "--log-level", "debug"]
    broker = ProcessBroker(tmp_path / "data", *options, storage=with_password(postgres))
    ready = broker.start()
    try:
        assert broker.process is not None
        seen = {"ready line": ready, "command line": command_line(broker.process.pid)}
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=30) as answer:
            seen["metrics"] = answer.read().decode()
        with RawClient(broker.address) as client:
            every = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
            request = DescribeConfigsRequest(resources=(every,), include_synonyms=True, include_documentation=True)
            described = client.call(request)
            seen["DescribeConfigs"] = repr(described)
            seen["DescribeLogDirs"] = repr(client.call(DescribeLogDirsRequest(topics=None)))
        at = f"127.0.0.1:{broker.port}"
        for arguments in (
            ("configs", "describe", "broker", "1", "--all"),
            ("configs", "describe", "broker", "1", "-o", "json"),
            ("cluster", "describe"),
        ):
            seen[" ".join(arguments)] = run(*arguments, "--bootstrap", at)
        seen["sql"] = run("sql", "--storage", with_password(postgres), "SELECT 1 FROM nothing")
    finally:
        broker.terminate()
    seen["log"] = broker.log()
    assert [name for name, text in seen.items() if MARK in text] == []
    assert "serve" in seen["command line"]
    [storage] = [each for result in described.results for each in result.configs if each.name == "odradek.storage"]
    assert (storage.value, storage.is_sensitive) == (None, True)  # as Kafka describes a password
    assert "***@127.0.0.1" in json.loads(ready)["storage"] if form == "json" else "***@127.0.0.1" in ready


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://app:{MARK}@127.0.0.1:notaport/x",
        f"postgresql+psycopg://app:{MARK}@127.0.0.1:123456/x",
        f"postgresql+psycopg://app:{MARK}@127.0.0.1",
        f"postgresql+psycopg://app:{MARK}@127.0.0.1:1/x?sslpassword={MARK}",
        f"postgresql+psycopg://app:%{MARK}@127.0.0.1:1/x",
        f"postgresql+psycopg://app:a/{MARK}@127.0.0.1:1/x",
        f"postgresql+psycopg://app:a@{MARK}@127.0.0.1:1/x",
        f"postgresql+psycopg://app@127.0.0.1:1/x?nonsense=x&password={MARK}",
        f"mysql://app:{MARK}@127.0.0.1/x",
        f"sqlite://app:{MARK}@127.0.0.1/x",
        f"lmdb://app:{MARK}@127.0.0.1/x",
        f"memory://app:{MARK}@127.0.0.1/x",
    ],
)
@pytest.mark.parametrize("open_url", [open_store, open_beside])
def test_no_error_about_a_storage_url_contains_the_password(url, open_url):
    with pytest.raises((StoreUrlError, StoreError)) as raised:
        open_url(url)
    assert MARK not in str(raised.value)


def test_commands_do_not_print_the_password_in_errors():
    url = f"postgresql+psycopg://app:{MARK}@127.0.0.1:notaport/x"
    serve = ["serve", "--listen", "127.0.0.1:0"]
    for said in (
        run(*serve, "--storage", url),
        run(*serve, ODRADEK_STORAGE=url),
        run("sql", "SELECT 1", "--storage", url),
        run("sql", "SELECT 1", "--storage", url.replace("notaport", "1")),
    ):
        assert said.startswith("odradek: ")
        assert said.count("\n") == 1
        assert MARK not in said


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql+psycopg://app:pw@host:5432/db", "postgresql+psycopg://app:***@host:5432/db"),
        ("postgresql://app@host/db?password=pw&x=1", "postgresql://app@host/db?password=***&x=1"),
        ("postgresql://:p@w/d@host/db", "postgresql://:***@host/db"),
        ("jdbc:mysql://app:pw@host/db?useSSL=true", "jdbc:mysql://app:***@host/db?useSSL=true"),
        ("jdbc:sqlserver://host:1433;user=a;Password=pw;x=1", "jdbc:sqlserver://host:1433;user=a;Password=***;x=1"),
        ("jdbc:oracle:thin:scott/tiger@//host:1521/svc", "jdbc:oracle:thin:scott/***@//host:1521/svc"),
        ("cannot use http://a:b@h/, nor http://c:d@h/", "cannot use http://a:***@h/, nor http://c:***@h/"),
        ("lmdb:///var/a:b@c", "lmdb:///var/a:b@c"),
        ("postgresql://app@host:5432/db", "postgresql://app@host:5432/db"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
    ],
)
def test_urls_are_masked(url, expected):
    assert masked_url(url) == expected


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("postgresql://app:pässw@host/db", "postgresql://app:******@host/db"),
        ("--storage=postgresql://app:pw@host/db", "--storage=postgresql://app:**@host/db"),
        ("odradek.storage=postgresql://app:pw@host/db", "odradek.storage=postgresql://app:**@host/db"),
        ("ssl.keystore.password=pw", "ssl.keystore.password=**"),
        ("sasl.jaas.config=a b c;", "sasl.jaas.config=" + "*" * 6),
        ("log.retention.hours=1", "log.retention.hours=1"),
        ("/data", "/data"),
    ],
)
def test_arguments_keep_their_length(argument, expected):
    assert masked(argument).decode() == expected
