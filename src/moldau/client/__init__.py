"""Clients for Kafka clusters: producers, consumers, listeners, administration.

They work against Moldau and Apache Kafka alike, and each exists twice: async, and blocking over
the same code. Programs import public names from ``moldau``, this package from the modules here;
nothing is loaded before it is asked for, so that administration does not pay for producing.
"""

# Before anything imports kio: keeps hypothesis, which kio would load, out of the process.
import moldau.wire.schema  # noqa: F401
