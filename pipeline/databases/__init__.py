"""The database side of loading and exporting: engines, the mapping of types, and exactly-once bookkeeping."""
