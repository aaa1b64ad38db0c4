"""Pipelines on Spark, declared in a TOML file: see docs/pipelines-reference.md.

``places`` to ``load`` are pure and know nothing of Spark: a mistake in a file is found, with its
line, before a session starts. ``frames`` and below build and run what a file declares.
"""
