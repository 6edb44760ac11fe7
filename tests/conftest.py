"""What holds for all tests: properties are judged by what they find, never by how long an example took.

Spark's JVMs are those of short lives, and files with long tests come first.
"""

import pytest
from hypothesis import settings

from compat_tests.order import long_files_first
from compat_tests.spark_session import quick_to_start

settings.register_profile("odradek", settings.default, deadline=None)
settings.load_profile("odradek")
quick_to_start()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After chance has shuffled them."""
    long_files_first(items)
