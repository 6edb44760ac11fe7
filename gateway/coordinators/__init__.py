"""Group and transaction coordinators: the runtime of pure shards, and what carries their decisions out."""
