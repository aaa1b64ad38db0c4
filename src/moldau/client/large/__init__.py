"""Values that are too large for a record: in chunks, or in shared storage.

Give one of these to producers and consumers as ``large_messages=``; ``send`` and ``poll`` then take
and give values of any size. Consumers without it see the chunks, or records with an address.
"""

from moldau.client.large.chunking import Chunking
from moldau.client.large.claim_check import ClaimCheck
from moldau.client.large.codec import LargeMessageCodec, LargeMessageReader

__all__ = ["Chunking", "ClaimCheck", "LargeMessageCodec", "LargeMessageReader"]
