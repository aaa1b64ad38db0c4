"""TLS and SASL on the client's side.

Imported only for a ``security.protocol`` other than PLAINTEXT. ``security.py`` puts the pieces
together; ``Connections`` is the only place that uses it, so every client has it.
"""
