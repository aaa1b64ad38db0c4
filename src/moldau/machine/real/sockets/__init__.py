"""TCP connections of the operating system."""
