"""The log of one partition as pure logic: which batches are accepted, at which offsets, and what a reader may see."""
