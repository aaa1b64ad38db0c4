"""The version of this package, for the lower layers too."""

__version__ = "0.1.0"
