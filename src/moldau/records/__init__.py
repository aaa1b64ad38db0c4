"""Record batches: the unit in which records are sent, stored and fetched (message format v2)."""
