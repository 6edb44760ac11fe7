"""What `TestBroker` and `TestCluster` offer to tests: records, groups, faults, time, releases, snapshots.

Each module has one concern, and consists of asynchronous functions that run on the broker's Trio thread, with its
`Services` (`TestBroker.call`), or of values that tests see. They are imported when a test first uses them: neither the
import of `odradek` nor the start of a broker becomes slower.
"""
