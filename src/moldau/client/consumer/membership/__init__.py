"""Membership in a group: pure machines for both protocols, and the shell that drives them."""
