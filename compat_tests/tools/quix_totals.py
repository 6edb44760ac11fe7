"""A program of quixstreams: running totals by key, exactly once, with its state in a changelog topic.

python quix_totals.py BOOTSTRAP FROM TO COUNT STATE_FOLDER
"""

import sys

from quixstreams import Application


def main(bootstrap: str, source: str, target: str, count: int, folder: str) -> None:
    """Reads `count` records of `source` and writes each key's total so far to `target`."""
    app = Application(
        broker_address=bootstrap,
        consumer_group="quix-totals",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        state_dir=folder,
        loglevel="WARNING",
    )
    amounts = app.dataframe(app.topic(source, value_deserializer="json"))

    def add(amount, state):
        total = state.get("total", 0) + amount
        state.set("total", total)
        return total

    amounts.apply(add, stateful=True).to_topic(app.topic(target, value_serializer="json"))
    app.run(count=count, timeout=60)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
