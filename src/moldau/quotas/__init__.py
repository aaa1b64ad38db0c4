"""Client quotas (KIP-13, KIP-55, KIP-124, KIP-546, KIP-599, KIP-612): what they are set for, what
may be set, and how a client's rate becomes the time for which it holds back.

Pure: time is handed in. The controller checks and stores quotas, brokers describe and enforce them.
"""
