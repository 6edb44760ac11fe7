"""Where pure logic meets stores: commit path, replicas, the runtime of coordinator shards."""
