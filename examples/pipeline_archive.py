"""A topic becomes a table that is queried with SQL. Runs on this machine, on a Spark cluster and under spark-submit.

    odradek serve &
    echo '{"city": "Prague", "degrees": 21}' | odradek produce weather
    python examples/pipeline_archive.py

MASTER selects another Spark than `local[*]`, BOOTSTRAP another Kafka, TABLE another path of the table.
"""

import os

from odradek.pipeline import Connection, Parsing, archive, read_table, spark_session

connection = Connection(os.environ.get("BOOTSTRAP", "127.0.0.1:9092"))
topic, path = os.environ.get("TOPIC", "weather"), os.environ.get("TABLE", "weather-table")
spark = spark_session(connection=connection, master=os.environ.get("MASTER"))

report = archive(spark, topic, path, connection=connection, value=Parsing("json"))
report.print_table()

read_table(spark, path).createOrReplaceTempView("records")
spark.sql("SELECT parsed.city, max(parsed.degrees) AS warmest FROM records GROUP BY 1 ORDER BY 1").show()
spark.stop()
