"""Transactions that append to the outbox, endlessly, over several connections: `outbox_writer.py CONNINFO SEED`.

Each transaction also writes its records to the table `truth`, which therefore has exactly what was committed. A third
of them roll back. There is a delay between appending and the end, so that transactions end in another order than they
begin.
"""

import sys
import threading
from random import Random

import psycopg

CONNECTIONS = 5
PARTITIONS = 3


def transaction(connection: psycopg.Connection, random: Random) -> None:
    """Appends some records, and commits or rolls back."""
    for seq in range(random.randint(1, 4)):
        label = f"{random.getrandbits(128):032x}"
        partition = connection.execute(
            "SELECT odradek.append('t', NULL, %s, NULL, %s)", [label, random.choice([None, *range(PARTITIONS)])]
        ).fetchone()[0]
        connection.execute("INSERT INTO truth (label, partition, seq) VALUES (%s, %s, %s)", [label, partition, seq])
        threading.Event().wait(random.choice([0, 0.001, 0.02]))
    if random.random() < 1 / 3:
        connection.rollback()
    else:
        connection.commit()


def work(conninfo: str, random: Random) -> None:
    """Runs transactions, over a new connection when one breaks."""
    while True:
        try:
            with psycopg.connect(conninfo) as connection:
                while True:
                    transaction(connection, random)
        except psycopg.OperationalError:
            threading.Event().wait(0.05)


def main() -> None:
    """Runs until the process is killed."""
    conninfo, seed = sys.argv[1:]
    threads = [
        threading.Thread(target=work, args=(conninfo, Random(f"{seed} {number}")), daemon=True)
        for number in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
