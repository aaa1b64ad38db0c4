"""All logs of a broker together: opened, made, flushed, checkpointed, deleted, closed."""
