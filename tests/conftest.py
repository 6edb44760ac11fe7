"""What holds for all tests: properties are judged by what they find, never by how long an example took.

Spark's JVMs are those of short lives.
"""

from hypothesis import settings

from compat_tests.spark_session import quick_to_start

settings.register_profile("odradek", settings.default, deadline=None)
settings.load_profile("odradek")
quick_to_start()
