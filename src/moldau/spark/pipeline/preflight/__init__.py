"""What a pipeline needs around it, looked at before Spark starts: see docs/pipelines.md.

Nothing here imports Spark. ``everything`` runs the others side by side.
"""
