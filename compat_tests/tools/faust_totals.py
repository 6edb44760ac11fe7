"""A program of faust-streaming: running totals by key in a table, whose changes go to a changelog topic.

python faust_totals.py worker --without-web     (BOOTSTRAP, FROM, TO in the environment)
"""

import os

import faust

app = faust.App(
    "faust-totals",
    broker=f"kafka://{os.environ['BOOTSTRAP']}",
    store="memory://",
    topic_partitions=2,
    topic_disable_leader=True,
)
source = app.topic(os.environ["FROM"], key_type=str, value_type=int, value_serializer="json")
target = app.topic(os.environ["TO"], key_type=str, value_type=int, value_serializer="json")
totals = app.Table("totals", default=int, partitions=2)


@app.agent(source)
async def add(amounts):
    """Writes each key's total so far to the other topic."""
    async for key, amount in amounts.items():
        totals[key] += amount
        await target.send(key=key, value=totals[key])


if __name__ == "__main__":
    app.main()
