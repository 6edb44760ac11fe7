"""The PostgreSQL of the tests is a real one: only committed data survives a kill."""

from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.exc import OperationalError


def test_only_what_was_committed_outlives_a_kill(postgres_server, postgres):
    engine = create_engine(postgres, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t AS SELECT 1 AS a"))
    open_one = engine.connect()
    open_one.execute(text("INSERT INTO t VALUES (2)"))
    postgres_server.kill()
    try:
        open_one.commit()
    except OperationalError:
        open_one.invalidate()
    postgres_server.start()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT a FROM t")).scalars().all() == [1]
