"""The environment of a broker: clocks, randomness, network, threads and stores; waiting and waking of tasks."""
