"""Opening the log of a partition, after a clean stop or after a crash."""
