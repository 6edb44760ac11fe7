"""What a test does with a broker beyond starting it: scripted faults and events."""
