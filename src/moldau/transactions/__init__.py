"""Transactions: what each transactional id is doing. Pure; run by ``moldau.coordinators``."""
