"""Moving a replica from one log directory to another while it is read and written (KIP-113)."""
