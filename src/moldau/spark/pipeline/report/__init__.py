"""One page about the runs of a pipeline, from what they have left beside the checkpoint."""
