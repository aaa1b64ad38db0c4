"""Tests with sample rows: a pipeline's steps on given rows, without brokers, and what comes out.

``cases`` reads ``NAME.test.toml`` and needs no Spark; ``run_cases`` does. Frames are no streams
here: every window is complete, and no row is late.
"""
