"""A process that writes numbers, each once to both partitions of `out`, and its progress, in transactions.

Arguments: bootstrap server and how many numbers. Prints a line for each committed transaction. On any error it ends at
once, as if it had crashed: its parent starts another one with the same transactional id.
"""

import os
import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SIZE = 10
TIMEOUT_S = 30
ABORT_EVERY = 4


def main(bootstrap: str, total: int) -> None:
    # librdkafka 2.16 loses the group's coordinator when it bootstraps again, and never sends the offsets.
    common = {"bootstrap.servers": bootstrap, "metadata.recovery.strategy": "none"}
    common |= {"log_level": 0, "reconnect.backoff.max.ms": 200}
    consumer = Consumer(common | {"group.id": "pipeline", "enable.auto.commit": False})
    producer = Producer(common | {"transactional.id": "pipeline", "transaction.timeout.ms": 10_000})
    producer.init_transactions(TIMEOUT_S)
    [committed] = consumer.committed([TopicPartition("in", 0)], TIMEOUT_S)
    position, transactions = max(committed.offset, 0), 0
    while position < total:
        producer.begin_transaction()
        for number in range(position, position + SIZE):
            for partition in range(2):
                producer.produce("out", b"%d" % number, partition=partition)
        transactions += 1
        if transactions % ABORT_EVERY == 0:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
            continue
        offsets = [TopicPartition("in", 0, position + SIZE)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
        position += SIZE
        sys.stdout.write(f"{position}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except KafkaException as error:
        sys.stderr.write(f"{error}\n")
        os._exit(1)  # librdkafka may hang when it is closed while its broker is away
    os._exit(0)
