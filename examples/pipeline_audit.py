"""An audit explains every offset of a topic: `.venv/bin/python -m examples.pipeline_audit`."""

import tempfile
from pathlib import Path

from confluent_kafka import Producer

import odradek
from odradek.pipeline import Connection, audit


def main() -> None:
    """Audit a topic that contains an aborted transaction."""
    with odradek.broker() as broker, tempfile.TemporaryDirectory() as folder:
        broker.create_topic("payments")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "till"})
        producer.init_transactions()
        for outcome in ("commit", "abort"):
            producer.begin_transaction()
            for number in range(10):
                producer.produce("payments", f"{number} crowns")
            producer.flush()  # an abort discards records that were not sent yet
            getattr(producer, f"{outcome}_transaction")()
        report = audit(Connection(broker.bootstrap), "payments", html=Path(folder) / "payments.html")
        print(f"{report.read} records, {report.written} committed, {report.skipped['transaction marker']} markers")
        print("everything is explained" if report.complete else report.notes)


if __name__ == "__main__":
    main()
