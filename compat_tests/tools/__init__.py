"""Programs of stream-processing libraries, each run in a separate environment by `compat_tests/test_tools.py`."""
