"""From columns of bytes to typed columns: ``value.format`` and ``key.format``."""
