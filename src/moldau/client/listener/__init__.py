"""A container that feeds records to handlers, slow ones and parallel ones, and commits."""
