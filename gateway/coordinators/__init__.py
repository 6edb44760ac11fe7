"""Group and transaction coordinators: the runtime of pure shards, which writes and applies their decisions."""
