"""Rows and records in one transaction, with SQLAlchemy's ORM: `.venv/bin/python -m examples.outbox`."""

from confluent_kafka import Consumer
from sqlalchemy import JSON, create_engine, func, select, type_coerce
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import odradek
from examples.postgres import postgresql


class Base(DeclarativeBase):
    """The base class of the tables."""


class Order(Base):
    """A table of the application, in the database that is the broker's store."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    quantity: Mapped[int]


def place(session: Session, item: str, quantity: int) -> None:
    """Insert an order, and append a record about it, in the session's transaction."""
    order = Order(item=item, quantity=quantity)
    session.add(order)
    session.flush()
    value = {"id": order.id, "item": item, "quantity": quantity}
    session.execute(select(func.odradek.append("orders", f"order {order.id}", type_coerce(value, JSON))))


def main() -> None:
    """Commit two orders and roll one back; a consumer reads two."""
    with postgresql() as url, odradek.broker(url) as broker:
        broker.create_topic("orders")
        engine = create_engine(url)
        Base.metadata.create_all(engine)
        with Session(engine) as session:
            place(session, "paper", 500)
            session.commit()
            place(session, "ink", -1)
            session.rollback()
            place(session, "pens", 12)
            session.commit()
            print("rows:", [(each.item, each.quantity) for each in session.scalars(select(Order).order_by(Order.id))])
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "packers", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        for message in consumer.consume(2, timeout=30):
            print(f"record: {message.key().decode()} {message.value().decode()}")
        consumer.close()
        engine.dispose()


if __name__ == "__main__":
    main()
