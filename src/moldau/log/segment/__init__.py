"""One segment of a log: a file of record batches and its three indexes."""
