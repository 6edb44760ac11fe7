"""One partition's log as pure logic: what is accepted, at which offsets, what a reader may see. No I/O, no clock."""
