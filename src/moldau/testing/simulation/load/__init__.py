"""Clients that keep a simulated broker busy, and note what they did and saw."""
