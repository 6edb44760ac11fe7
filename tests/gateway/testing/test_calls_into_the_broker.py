"""`TestBroker.call`: a test's thread runs a function on the broker's Trio thread."""

import threading

import pytest
import trio

import odradek
from odradek.gateway.process import Broker
from odradek.storage_backends.interface import StoreError


@pytest.fixture(scope="module")
def kafka():
    with odradek.broker() as running:
        yield running


async def test_a_call_gets_the_services_and_returns_the_result_inside_another_trio_run(kafka):
    async def cluster_id(services):
        await trio.lowlevel.checkpoint()
        return services.cluster_id, threading.current_thread().name

    found, thread = kafka.call(cluster_id)
    assert (len(found), thread) == (22, "odradek-broker")


def test_a_call_raises_what_its_function_raises_and_the_broker_goes_on(kafka):
    async def fails(_services):
        raise LookupError("no such thing")

    async def fails_in_a_group(_services):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails, None)

    with pytest.raises(LookupError, match="no such thing"):
        kafka.call(fails)
    with pytest.raises(ExceptionGroup):
        kafka.call(fails_in_a_group)
    kafka.create_topic("after-errors")


def test_a_call_that_takes_too_long_is_cancelled(kafka):
    cancelled = threading.Event()

    async def waits(_services):
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError):
        kafka.call(waits, timeout_s=0.01)
    assert cancelled.wait(30)


def test_a_call_from_the_brokers_own_thread_is_refused(kafka):
    async def calls_again(_services):
        kafka.create_topic("never")

    with pytest.raises(RuntimeError, match="own thread"):
        kafka.call(calls_again)


def test_without_a_broker_the_error_says_so():
    kafka = odradek.broker()
    with pytest.raises(RuntimeError, match=r"does not run: use it inside its `with` block"):
        kafka.create_topic("t")


def test_a_call_that_waits_while_the_broker_stops_ends():
    with odradek.broker() as own:
        waiting = threading.Event()
        errors = []

        async def waits(_services):
            waiting.set()
            await trio.sleep_forever()

        def call():
            with pytest.raises(RuntimeError, match="does not run") as raised:
                own.call(waits, timeout_s=None)
            errors.append(raised.value)

        thread = threading.Thread(target=call)
        thread.start()
        assert waiting.wait(30)
        own.stop()
        thread.join(30)
        assert len(errors) == 1


def test_after_the_broker_has_ended_by_an_error_a_call_names_it(monkeypatch, caplog):
    async def breaks(_broker):
        raise StoreError("the disk is gone")

    def use():
        with odradek.broker() as own:
            with pytest.raises(RuntimeError, match="does not run") as raised:
                own.call(patient, timeout_s=None)
            assert isinstance(raised.value.__cause__, StoreError)

    async def patient(_services):
        await trio.sleep_forever()

    monkeypatch.setattr(Broker, "serve", breaks)
    with pytest.raises(StoreError, match="the disk is gone"):
        use()
