"""What goes wrong between bytes and messages.

    ProtocolError
    ├── DecodeError               the bytes are not what they claim to be
    │   └── TooManyElementsError  or there are more of them than is allowed
    ├── EncodeError               a value does not fit the field or version it is meant for
    └── UnsupportedVersionError   the API or its version is not spoken here

A broker closes the connection on each of them, as Kafka does; there is nobody to send an error
code to.
"""

from __future__ import annotations


class ProtocolError(Exception):
    """Base of everything this package raises on purpose."""


class DecodeError(ProtocolError):
    """The bytes are not a valid message of the API and version they claim to be."""


class TooManyElementsError(DecodeError):
    """The message has more array elements than whoever decodes it allows."""


class EncodeError(ProtocolError):
    """A value does not fit into the field or the version that it is meant for."""


class UnsupportedVersionError(ProtocolError):
    """An API or an API version that is unknown or not served."""
