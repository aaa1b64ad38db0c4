"""A streaming job that copies a topic: to be killed by a test, then run to its end."""

from __future__ import annotations

import json
import sys
import time

from tests.spark.java_options import JAVA_OPTIONS

from moldau.spark.session import spark_session


def main(bootstrap: str, topic: str, copy: str, checkpoint: str, *to_the_end: str) -> None:
    """For ever, and telling how many records it has copied, unless it is to end."""
    config = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    }
    spark = spark_session("copy", master="local[1]", config=config)
    server = {"kafka.bootstrap.servers": bootstrap}
    rows = (
        spark.readStream.format("moldau")
        .options(**server, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=150)
        .load()
        .select("key", "value")
    )
    writer = rows.writeStream.format("moldau").options(
        **server, topic=copy, checkpointLocation=checkpoint
    )
    query = (writer.trigger(availableNow=True) if to_the_end else writer).start()
    while not to_the_end and query.isActive:
        progress = query.lastProgress
        if progress is not None:
            ends = json.loads(progress["sources"][0]["endOffset"])
            print(f"copied {sum(ends[topic].values())}", flush=True)
        time.sleep(0.05)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
