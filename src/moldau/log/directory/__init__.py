"""The log directories of a broker (``log.dirs``): each by itself, and what lives in which."""
