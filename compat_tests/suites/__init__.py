"""Integration tests that client libraries publish, run as they are; `python -m compat_tests.suites`."""
