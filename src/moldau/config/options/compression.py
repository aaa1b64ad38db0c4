"""Levels of compression: the same settings for brokers, topics and producers."""

from __future__ import annotations

from moldau.config.declare import CLUSTER_WIDE, integer
from moldau.config.option import Options
from moldau.config.validators import Between


class CompressionLevels(Options):
    """How thorough each codec is."""

    compression_gzip_level = integer(
        -1,
        "The level when batches are compressed with gzip; -1 is the library's own choice.",
        allowed=Between(1, 9, also=-1),
        update=CLUSTER_WIDE,
    )
    compression_lz4_level = integer(
        9,
        "The level when batches are compressed with lz4.",
        at_least=1,
        at_most=17,
        update=CLUSTER_WIDE,
    )
    compression_zstd_level = integer(
        3,
        "The level when batches are compressed with zstd.",
        at_least=-131_072,
        at_most=22,
        update=CLUSTER_WIDE,
    )
