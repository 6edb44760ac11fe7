"""Groups that go from the classic protocol to that of KIP-848 or back, and those that have members of both."""
