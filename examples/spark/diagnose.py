"""Diagnoses logs with Spark: `spark-submit examples/spark/diagnose.py OUT LOG…` writes OUT as Parquet, a row a log.

Each partition loads the model once; the workers need ddpclassify, and the logs by the same paths.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

SCHEMA = (
    "log string, category string, confidence double, scope string, culprit_ranks array<int>, json string, error string"
)


def diagnosed(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Turn frames with a column ``log`` into frames of `SCHEMA`; what can't be read has its reason in ``error``."""
    from ddpclassify import load_model

    model = load_model()
    for frame in frames:
        yield pd.DataFrame(
            [row(model, log) for log in frame["log"]], columns=[c.split()[0] for c in SCHEMA.split(", ")]
        )


def row(model: Any, log: str) -> tuple[object, ...]:
    """Return one row."""
    from ddpclassify.types import InputError

    try:
        answer = model.diagnose(log)
    except InputError as error:
        return log, None, None, None, None, None, str(error)
    ranks = list(answer.culprit_ranks)
    return log, answer.category, answer.confidence, answer.scope, ranks, json.dumps(answer.to_dict()), None


def main() -> None:
    """Run the job."""
    out, *logs = sys.argv[1:]
    spark = SparkSession.builder.appName("ddpclassify").getOrCreate()
    listing = spark.createDataFrame([(log,) for log in logs], "log string").repartition(min(len(logs), 64))
    listing.mapInPandas(diagnosed, SCHEMA).write.mode("overwrite").parquet(out)
    spark.read.parquet(out).groupBy("category").count().orderBy("category").show()
    spark.stop()


if __name__ == "__main__":
    main()
