"""The log cleaner: keeps the last record of each key of compacted topics."""
