"""A topic is copied to another cluster, byte by byte: `.venv/bin/python -m examples.pipeline_mirror`."""

from confluent_kafka import Producer

import odradek
from odradek.pipeline import Connection, audit, mirror


def main() -> None:
    """Mirror twice, the second time only the new records, and compare both topics with an audit."""
    with odradek.broker() as old, odradek.broker() as new:
        old.create_topic("temperatures", 2)
        producer = Producer({"bootstrap.servers": old.bootstrap})
        source, target = Connection(old.bootstrap), Connection(new.bootstrap)
        for month in ("May", "June"):
            for day in range(1, 11):
                producer.produce("temperatures", f"{day + 15} celsius", key=f"{month} {day}")
            producer.flush()
            report = mirror(source, target, topics="temperatures", shown=False)
            print(f"{report.written} records copied")
        report = audit(source, "temperatures", against=(target, "temperatures"))
        print(next(note for note in report.notes if "identical" in note).partition(": ")[2])


if __name__ == "__main__":
    main()
