"""Looking into log directories from outside, for ``moldau log``."""
