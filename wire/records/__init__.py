"""Record batches: the header view and patching, CRC-32C, compression, and the records themselves."""
