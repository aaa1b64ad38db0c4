"""What a pipeline needs around it, looked at before Spark starts: see docs/pipelines-reference.md.

Nothing here imports Spark. ``everything`` runs the others side by side.
"""
