"""Topics as PySpark sources and sinks: ``spark.read.format("moldau")``. See docs/spark.md."""
