"""A driver that copies a topic exactly once and dies as told: ``worker:STEP``, ``driver:STEP``."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.spark.exactly_once_faults import plan_fault, register, start_copy

from moldau.spark.session import spark_session


def main(bootstrap: str, topic: str, copy: str, directory: str, *deaths: str) -> None:
    config = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": directory,
        "spark.local.dir": directory,
    }
    # A task is tried three times: a worker that dies in a task does not end the query.
    spark = spark_session("exactly once", master="local[2,3]", config=config)
    register(spark)
    place = Path(directory)
    left = list(deaths)
    query = start_copy(spark, bootstrap, topic, copy, place)
    java = spark.sparkContext._gateway.proc.pid
    while query.isActive:
        if left and not (place / "plan").exists():
            who, step = left.pop(0).split(":")
            plan_fault(place / "plan", step, *((java, os.getpid()) if who == "driver" else ()))
        time.sleep(0.01)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
