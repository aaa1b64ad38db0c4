"""The log of one partition, and what it is made of."""
