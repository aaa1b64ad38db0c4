"""What happens to logs by itself, as time passes: flushes, checkpoints, retention, removal."""
