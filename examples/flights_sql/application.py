"""A separate application, with SQLAlchemy's ORM: each flight is a row and a record, several in one transaction.

Every tenth transaction is rolled back first, and then repeated: no record of the first attempt may be read.
"""

import argparse
from collections.abc import Sequence

from sqlalchemy import ForeignKey, LargeBinary, column, create_engine, func, select, values
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from examples.flights.dataset import Flight, flights

TOPIC = "departures"
TOGETHER = 100
"""The number of flights in a transaction."""


class Base(DeclarativeBase):
    """The base class of the tables."""


class Carrier(Base):
    """An airline."""

    __tablename__ = "carriers"

    code: Mapped[str] = mapped_column(primary_key=True)


class Departure(Base):
    """A flight that has left."""

    __tablename__ = "departed"

    id: Mapped[int] = mapped_column(primary_key=True)
    carrier: Mapped[str] = mapped_column(ForeignKey(Carrier.code))
    arrival_delay: Mapped[int | None]


def store(session: Session, some: Sequence[Flight]) -> None:
    """Insert rows, and append a record for each."""
    session.add_all([Departure(carrier=each.carrier, arrival_delay=each.arrival_delay) for each in some])
    session.flush()
    told = values(column("key", LargeBinary), column("value", LargeBinary), name="told")
    told = told.data([(each.tail_number, each.value) for each in some])
    session.execute(select(func.odradek.append(TOPIC, told.c.key, told.c.value)).select_from(told))


def main() -> None:
    """Store all flights up to a limit; prints the number of stored flights after each transaction."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    parser.add_argument("--limit", type=int, required=True)
    options = parser.parse_args()
    rows = list(flights(options.limit))
    engine = create_engine(options.database)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Carrier(code=code) for code in sorted({each.carrier for each in rows})])
        session.commit()
        for number, start in enumerate(range(0, len(rows), TOGETHER)):
            some = rows[start : start + TOGETHER]
            if number % 10 == 9:
                store(session, some)
                session.rollback()
            store(session, some)
            session.commit()
            print(start + len(some), flush=True)
    engine.dispose()


if __name__ == "__main__":
    main()
