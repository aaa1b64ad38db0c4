"""Programs in virtual time, on simulated machines, every life of them replayed from its seed."""
