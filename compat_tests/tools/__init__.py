"""Programs of stream-processing libraries, each run in an environment of its own by `compat_tests/test_tools.py`."""
