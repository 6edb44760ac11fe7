"""PySpark jobs between topics and tables; there are none yet."""
