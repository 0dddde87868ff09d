"""Measure a diagnoser on labelled logs: corpora, metrics with intervals, comparisons, tables."""

from __future__ import annotations

from ddpclassify.corpus import Labelled, load_corpus
from ddpclassify.evaluation.metrics import METRICS, Estimate, Marks, mark, mcnemar
from ddpclassify.evaluation.prediction import Prediction

__all__ = ["METRICS", "Estimate", "Labelled", "Marks", "Prediction", "load_corpus", "mark", "mcnemar"]
