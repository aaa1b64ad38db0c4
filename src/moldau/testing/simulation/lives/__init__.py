"""Stories that a seed tells: who takes part, what goes wrong, and whether promises were kept."""
