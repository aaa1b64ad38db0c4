"""Moldau: Apache Kafka's job, done in Python."""

__version__ = "0.1.0"
