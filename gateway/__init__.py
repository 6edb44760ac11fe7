"""The only place that does I/O: configuration, server, connections, handlers, runtime, command line, testing."""
