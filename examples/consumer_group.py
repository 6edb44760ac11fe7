"""Two members share a topic; one leaves, the other takes over: `.venv/bin/python -m examples.consumer_group`."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own, at import
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

import odradek

TOPIC, GROUP, PARTITIONS = "jobs", "workers", 4
POLL_MS = 2000
"""Long, since kafka-python 3.0.12 can lose an assignment that arrives just after a short poll. Records end a poll."""


def member(bootstrap: str, name: str) -> KafkaConsumer:
    """A member of the group, which commits automatically when it leaves."""
    return KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        client_id=name,
        group_id=GROUP,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
    )


def produce(bootstrap: str, jobs: range) -> None:
    """Send jobs, spread evenly over the partitions."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for job in jobs:
        producer.send(TOPIC, value=str(job).encode(), partition=job % PARTITIONS)
    producer.close()


def work(members: dict[str, KafkaConsumer], count: int) -> dict[str, list[int]]:
    """Poll the members in turn until they have done `count` jobs together; returns the jobs of each."""
    done: dict[str, list[int]] = {name: [] for name in members}
    while sum(map(len, done.values())) < count:
        for name, consumer in members.items():
            for records in consumer.poll(timeout_ms=POLL_MS).values():
                done[name] += [int(record.value) for record in records]
    return done


def share_out(members: dict[str, KafkaConsumer]) -> None:
    """Poll until every member has partitions and all partitions are assigned; the topic has no jobs yet."""
    while True:
        for consumer in members.values():
            consumer.poll(timeout_ms=POLL_MS)
        shares = [len(consumer.assignment()) for consumer in members.values()]
        if all(shares) and sum(shares) == PARTITIONS:
            return


def main() -> None:
    """Do 100 jobs with two members, close one member, and do 100 more; each job exactly once."""
    with odradek.broker() as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.create_topics({TOPIC: {"num_partitions": PARTITIONS, "replication_factor": 1}})
        members = {name: member(broker.bootstrap, name) for name in ("anna", "bedrich")}
        share_out(members)
        for name, consumer in members.items():
            print(f"{name} has partitions {sorted(place.partition for place in consumer.assignment())}")

        produce(broker.bootstrap, range(100))
        first = work(members, 100)
        print("; ".join(f"{name} did {len(jobs)} jobs" for name, jobs in first.items()))

        members.pop("bedrich").close()
        print("bedrich commits and leaves")
        produce(broker.bootstrap, range(100, 200))
        second = work(members, 100)
        print(
            f"anna did {len(second['anna'])} jobs, from partitions "
            f"{sorted(place.partition for place in members['anna'].assignment())}"
        )
        members["anna"].close()

        committed = admin.list_group_offsets(GROUP)[GROUP]
        print(f"committed: {sum(offset.offset for offset in committed.values())} of 200")
        admin.close()
        assert sorted(job for jobs in (*first.values(), *second.values()) for job in jobs) == list(range(200))


if __name__ == "__main__":
    main()
