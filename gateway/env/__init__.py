"""What the machine gives: clocks, chance, network, threads, stores; and how tasks wait and wake each other."""
