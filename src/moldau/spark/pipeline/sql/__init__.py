"""What can be said about a pipeline's SQL without Spark.

``names`` needs nothing and is part of reading a file. The rest needs sqlglot, and complains only of
what Spark would refuse for certain: where it cannot tell, a frame is open and anything goes.
"""
