"""A driver that copies a topic exactly once, through all faults that are planned for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from tests.spark.exactly_once_faults import faults_left, register, start_copy
from tests.spark.java_options import JAVA_OPTIONS

from moldau.spark.session import spark_session

MOST_STARTS_WITHOUT_A_FAULT = 3


def main(bootstrap: str, topic: str, copy: str, directory: str, master: str, *more: str) -> None:
    config = {
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": directory,
        "spark.local.dir": directory,
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.python.daemon.module": "tests.spark.ready_daemon",
        **dict(one.split("=", 1) for one in more),
    }
    spark = spark_session("exactly once", master=master, config=config)
    register(spark)
    place = Path(directory)
    plan = place / "plan"
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    (plan / "driver").write_text(f"{gateway.proc.pid} {os.getpid()}")
    useless = 0
    while True:
        left = faults_left(plan)
        try:
            start_copy(spark, bootstrap, topic, copy, place).awaitTermination()
            break
        except StreamingQueryException:
            # A fault may come a little later than its step, when the query has been restarted.
            useless = useless + 1 if faults_left(plan) == left else 0
            if useless == MOST_STARTS_WITHOUT_A_FAULT:
                raise
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
