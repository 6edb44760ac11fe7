"""Integration tests that client libraries publish, run unchanged; `python -m compat_tests.suites`."""
