"""The learned models: five linear models in one file, evaluated without scikit-learn."""

from ddpclassify.model.answers import Answers, answer
from ddpclassify.model.artifact import load, save

__all__ = ["Answers", "answer", "load", "save"]
