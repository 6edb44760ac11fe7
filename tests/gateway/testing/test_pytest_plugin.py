"""The plugin's fixtures (a broker, a topic, a cluster) in a separate test session, with and without xdist."""

import logging

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import pytest
    from kafka import KafkaConsumer, KafkaProducer

    def send(broker, topic):
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        offset = producer.send(topic, b"x").get(30).offset
        producer.close()
        return offset

    def partitions(broker, topic):
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
        found = consumer.partitions_for_topic(topic)
        consumer.close()
        return found

    @pytest.mark.parametrize("n", range(4))
    def test_each_test_has_a_topic_of_its_own(kafka_broker, kafka_topic, n):
        assert send(kafka_broker, kafka_topic) == 0
        assert partitions(kafka_broker, kafka_topic) == {0}

    @pytest.mark.parametrize("kafka_topic", [3], indirect=True)
    def test_a_topic_with_more_partitions(kafka_broker, kafka_topic):
        assert partitions(kafka_broker, kafka_topic) == {0, 1, 2}
"""


@pytest.fixture
def fresh_levels():
    """The levels of loggers are those of a new process, whatever earlier tests of this one have set."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "odradek"]
    loggers = {logging.getLogger(name): logging.NOTSET for name in names} | {logging.root: logging.WARNING}
    before = {logger: logger.level for logger in loggers}
    for logger, level in loggers.items():
        logger.setLevel(level)
    yield
    for logger, level in before.items():
        logger.setLevel(level)


@pytest.fixture
def run(pytester, fresh_levels):
    def run_pytest(*arguments, tests=TESTS, ini="", how=pytester.runpytest_inprocess):
        pytester.makepyfile(tests)
        pytester.makeini(f"[pytest]\n{ini}")
        quick = ["-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
        return how(*quick, *arguments)

    return run_pytest


def test_the_fixtures(run):
    run().assert_outcomes(passed=5)


@pytest.mark.processes
def test_the_fixtures_under_xdist(run, pytester):
    """Each worker has a broker on its own port."""
    run("-n2", how=pytester.runpytest_subprocess).assert_outcomes(passed=5)


def test_one_broker_serves_the_session(run):
    tests = """
        import pytest
        ports = set()

        @pytest.mark.parametrize("n", range(3))
        def test_port(kafka_broker, n):
            ports.add(kafka_broker.port)
            assert len(ports) == 1
    """
    run(tests=tests).assert_outcomes(passed=3)


def test_settings_come_from_the_ini_file(run, tmp_path):
    tests = """
        def test_settings(kafka_broker):
            assert kafka_broker._running.config.values["num.partitions"] == 5
            assert kafka_broker._running.config.values["log.retention.hours"] == 3
            assert kafka_broker._running.config.storage_url.startswith("lmdb://")
    """
    ini = f"odradek_storage = {tmp_path}/data\nodradek_config =\n    num.partitions = 5\n    log.retention.hours=3\n"
    run(tests=tests, ini=ini).assert_outcomes(passed=1)
    assert (tmp_path / "data").is_dir()


def test_the_command_line_wins(run, tmp_path):
    tests = "def test_it(kafka_broker): assert kafka_broker._running.config.storage_url == 'memory://'"
    run("--odradek-storage", "memory://", tests=tests, ini=f"odradek_storage = {tmp_path}/data").assert_outcomes(
        passed=1
    )
    assert not (tmp_path / "data").exists()


CLUSTER_TESTS = """
    import pytest
    from kafka import KafkaAdminClient, KafkaProducer

    clusters = []

    @pytest.mark.parametrize("n", range(2))
    def test_a_leader_is_killed_and_started_again(kafka_cluster, n):
        topic = f"orders-{n}"
        kafka_cluster.create_topic(topic)
        leader = kafka_cluster.leader(topic, 0)
        kafka_cluster.kill(leader)
        assert kafka_cluster.leader(topic, 0, not_broker=leader) != leader
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_without(leader), acks="all")
        assert producer.send(topic, b"x").get(60).offset == 0
        producer.close()
        kafka_cluster.restart(leader)
        kafka_cluster.await_in_sync()

    @pytest.mark.parametrize("n", range(2))
    def test_one_cluster_of_three_serves_the_session(kafka_cluster, n):
        clusters.append(kafka_cluster)
        assert kafka_cluster.ids == (1, 2, 3)
        assert all(kafka_cluster.node(each).is_running for each in kafka_cluster.ids)
        assert clusters[0] is kafka_cluster

    def test_settings_come_from_the_ini_file(kafka_cluster):
        admin = KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap)
        admin.create_topics({"five": {"num_partitions": -1, "replication_factor": -1}})
        kafka_cluster.leader("five", 4)  # one broker has the topic in its metadata, then all
        kafka_cluster.await_in_sync()
        [topic] = admin.describe_topics(["five"])
        admin.close()
        assert len(topic["partitions"]) == 5
        assert all(len(part["replica_nodes"]) == 3 for part in topic["partitions"])
"""


@pytest.mark.processes
@pytest.mark.timeout(240)
def test_a_cluster(run, pytester):
    ini = "odradek_config =\n    num.partitions = 5\n    broker.session.timeout.ms = 3000\n"
    # in a separate process: kafka-python does not close its sockets to brokers that are down
    run(tests=CLUSTER_TESTS, ini=ini, how=pytester.runpytest_subprocess).assert_outcomes(passed=5)


@pytest.mark.parametrize("fixture", ["kafka_broker", "kafka_cluster"])
def test_a_malformed_setting_is_refused(run, fixture):
    result = run(tests=f"def test_it({fixture}): pass", ini="odradek_config =\n    num.partitions\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*odradek_config: 'num.partitions' is not of the form name=value*"])


@pytest.mark.processes
def test_no_broker_starts_unless_a_test_uses_it(run, pytester):
    tests = """
        import sys

        def test_it():
            assert "odradek.gateway.process" not in sys.modules
    """
    run(tests=tests, how=pytester.runpytest_subprocess).assert_outcomes(passed=1)


def test_faults_end_with_the_test(run):
    tests = """
        import pytest

        def test_armed(kafka_broker, kafka_faults):
            kafka_faults.always("*", close=True)
            kafka_broker.disk.fill()
            assert kafka_broker.faults is kafka_faults

        def test_armed_without_the_fixture(kafka_broker):
            assert not kafka_broker.faults.pending
            assert not kafka_broker.disk.is_full
            kafka_broker.faults.always("*", close=True)

        def test_gone(kafka_faults):
            assert not kafka_faults.pending
    """
    run(tests=tests).assert_outcomes(passed=3)


def test_a_fault_that_had_to_happen_fails_the_test(run):
    tests = """
        def test_unused(kafka_broker):
            kafka_broker.faults.next("Produce", close=True, must_happen=True)

        def test_next(kafka_broker):
            assert not kafka_broker.faults.pending
    """
    result = run(tests=tests)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*no request met the fault Produce close*"])


def test_faults_of_a_broker_of_ones_own_end_with_the_test(run):
    tests = """
        import pytest
        from odradek import broker

        @pytest.fixture(scope="session")
        def kafka_broker():
            with broker() as running:
                yield running

        def test_armed(kafka_faults):
            kafka_faults.always("*", close=True)

        def test_gone(kafka_faults):
            assert not kafka_faults.pending
    """
    run(tests=tests).assert_outcomes(passed=2)


def test_a_clean_broker_for_each_test(run):
    tests = """
        import pytest

        ports = set()

        @pytest.mark.parametrize("n", range(3))
        def test_it_has_only_its_topics(kafka_clean_broker, n):
            ports.add(kafka_clean_broker.port)
            assert len(ports) == 1
            assert kafka_clean_broker.records("orders") == []
            with pytest.raises(LookupError):
                kafka_clean_broker.records("made")
            kafka_clean_broker.produce("orders", "x", partition=2)
            kafka_clean_broker.create_topics({"made": 1})

        def test_the_other_broker_is_another(kafka_broker, kafka_clean_broker):
            kafka_broker.produce("orders", "x")
            assert kafka_clean_broker.records("orders") == []
            assert [each.partition for each in kafka_broker.records("events")] == []

        def test_after_a_stop(kafka_clean_broker):
            kafka_clean_broker.stop()

        def test_it_runs_again(kafka_clean_broker):
            assert kafka_clean_broker.records("orders") == []
    """
    run("-p", "no:randomly", tests=tests, ini="odradek_topics =\n    orders = 3\n    events\n").assert_outcomes(
        passed=6
    )


def test_a_malformed_topic_is_refused(run):
    result = run(tests="def test_it(kafka_broker): pass", ini="odradek_topics =\n    orders = many\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*odradek_topics: 'orders = many' is not of the form name or name=partitions*"])


def test_asynchronous_tests_use_the_same_fixtures(run):
    tests = """
        import asyncio
        import trio

        async def use(kafka, topic):
            made = await kafka.aio.produce(topic, "x")
            assert await kafka.aio.assert_produced(topic, value="x") == made

        def test_asyncio(kafka_clean_broker):
            asyncio.run(use(kafka_clean_broker, "orders"))

        def test_trio(kafka_clean_broker):
            trio.run(use, kafka_clean_broker, "orders")
    """
    run(tests=tests, ini="odradek_topics = orders\n").assert_outcomes(passed=2)


def test_topics_are_named_after_the_test(run):
    tests = """
        import re
        import pytest

        @pytest.mark.parametrize("what", ["a/b c", "é"])
        def test_named(kafka_topic, what):
            assert re.fullmatch(r"test_named[a-zA-Z0-9._-]*-[0-9a-f]{8}", kafka_topic), kafka_topic

        def test_%s(kafka_topic):
            assert len(kafka_topic) == 249

        def test_plain(kafka_broker, kafka_topic):
            assert re.fullmatch("test_plain-[0-9a-f]{8}", kafka_topic)
            kafka_broker.produce(kafka_topic, "x")
    """ % ("x" * 300)
    run(tests=tests).assert_outcomes(passed=4)


def test_the_broker_is_like_a_release(run):
    tests = """
        def test_it(kafka_broker, kafka_clean_broker):
            for kafka in (kafka_broker, kafka_clean_broker):
                assert kafka._running.config.release.name == "2.8"
    """
    run(tests=tests, ini="odradek_like = 2.8\n").assert_outcomes(passed=1)


def test_the_report_of_a_failure_has_what_the_broker_logged(run):
    tests = """
        import logging

        def test_earlier(kafka_broker):
            logging.getLogger("odradek.gateway.x").info("of an earlier test")

        def test_fails(kafka_broker, kafka_topic):
            logging.getLogger("odradek.gateway.x").info("joined group=%s", "\\x1b[31mred")
            assert False

        def test_passes(kafka_broker):
            logging.getLogger("odradek.gateway.x").info("not shown")

        def test_fails_without_a_broker():
            assert False
    """
    result = run(tests=tests)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*- Kafka broker log -*", "*Z INFO    joined group=*red"])
    output = result.stdout.str()
    assert output.count("Kafka broker log") == 1
    assert "\x1b[31mred" not in output
    assert "of an earlier test" not in output
    assert "not shown" not in output
    assert "Captured log" not in output


def test_others_get_from_the_broker_what_they_got_without_the_report(run):
    tests = """
        import logging

        log = logging.getLogger("odradek.gateway.x")

        def said(caplog):
            log.debug("1"); log.info("2"); log.warning("3")
            found = [record.message for record in caplog.records if record.name == log.name]
            caplog.clear()
            return found

        def test_default(kafka_broker, caplog):
            assert said(caplog) == ["3"]

        def test_of_all(kafka_broker, caplog):
            caplog.set_level("INFO")
            assert said(caplog) == ["2", "3"]

        def test_of_this_logger(kafka_broker, caplog):
            caplog.set_level("DEBUG", logger=log.name)
            assert said(caplog) == ["1", "2", "3"]

        def test_of_odradek(kafka_broker, caplog):
            caplog.set_level("DEBUG", logger="odradek")
            assert said(caplog) == ["1", "2", "3"]
    """
    run(tests=tests).assert_outcomes(passed=4)
    assert not logging.getLogger("odradek").handlers


@pytest.mark.processes
@pytest.mark.timeout(240)
def test_the_report_of_a_failure_has_what_the_nodes_logged(run, pytester):
    tests = """
        def test_fails(kafka_cluster):
            kafka_cluster.restart(2)
            assert False
    """
    result = run(tests=tests, how=pytester.runpytest_subprocess)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*- Kafka node 2 log -*", "*INFO *draining*"])
