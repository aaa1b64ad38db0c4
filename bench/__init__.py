"""Benchmarks: Moldau beside its peers, in one run, on this machine. ``make bench``."""
