"""A pipeline to look at: sources, steps and sinks with their columns, as SVG and on a terminal."""
