"""The variants of the category model that `variants.py` measures: a row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import ComplementNB
from sklearn.svm import LinearSVC

from ddpclassify.features import Features
from ddpclassify.model.answers import category_features, category_words, order_of
from ddpclassify.train import Sample, Settings
from ddpclassify.train.linear import SEED

NOW = Settings()


@dataclass(frozen=True, eq=False)
class Log:
    """A labelled log, and what a model that knows nothing like it says of each failure: how likely it is the cause."""

    sample: Sample
    cause: tuple[float, ...]


# Which words: what the package calls the likeliest cause's, and others.


def likeliest(log: Log) -> list[str]:
    return category_words(log.sample.described, log.cause)


def earliest(log: Log) -> list[str]:
    return next(iter(log.sample.described.tokens), [])


def of_all(log: Log) -> list[str]:
    return [word for words in log.sample.described.tokens for word in words]


def of_three(log: Log) -> list[str]:
    return [word for i in order_of(log.cause)[:3] for word in log.sample.described.tokens[i]]


def of_three_apart(log: Log) -> list[str]:
    return likeliest(log) + [f"also {w}" for i in order_of(log.cause)[1:3] for w in log.sample.described.tokens[i]]


def without(*kinds: str) -> Callable[[Log], list[str]]:
    """Return the likeliest cause's words but those of some kinds, by their marks in `features/words.py`."""
    return lambda log: [word for word in likeliest(log) if word.partition(":")[0] not in kinds]


def characters(log: Log) -> list[str]:
    texts = [f" {word[2:]} " for word in likeliest(log) if word.startswith("w:")]
    return [f"c:{text[i : i + n]}" for text in texts for n in (3, 4, 5) for i in range(len(text) - n + 1)]


# Which features.


def structural(log: Log) -> Features:
    return category_features(log.sample.described, log.cause)


def without_cues(log: Log) -> Features:
    return {name: x for name, x in structural(log).items() if "cue=" not in name}


def only_cues(log: Log) -> Features:
    return {name: x for name, x in structural(log).items() if "cue=" in name}


def times(factor: float) -> Callable[[Log], Features]:
    return lambda log: {name: factor * x for name, x in structural(log).items()}


# What a log weighs in training.


def alike(sample: Sample) -> float:
    return 1.0


def damaged(weight: float) -> Callable[[Sample], float]:
    return lambda sample: 1.0 if sample.label.get("damage", "none") == "none" else weight


def executed(weight: float) -> Callable[[Sample], float]:
    return lambda sample: weight if is_executed(sample) else 1.0


def is_executed(sample: Sample) -> bool:
    return bool(sample.label.get("provenance") == "executed")


@dataclass(frozen=True)
class Variant:
    """A category model; by default the one that the package trains, but for the copies of `dropped`."""

    model: Any = field(default_factory=lambda: LinearSVC(C=NOW.c_category, random_state=SEED))
    words: Callable[[Log], list[str]] | None = likeliest
    features: Callable[[Log], Features] | None = structural
    hashed: int = 0  # columns that words are hashed to; 0 for a vocabulary
    sublinear: bool = True
    idf: bool = True
    min_df: int = NOW.min_df
    max_terms: int = NOW.max_terms
    weight: Callable[[Sample], float] = alike
    dropped: float = 0.0  # every training log comes twice, at half the weight, once without this share of its words
    dropped_features: float = 0.0  # and of its features


def svc(**options: Any) -> Variant:
    return Variant(LinearSVC(**{"C": NOW.c_category, "random_state": SEED, **options}))


def sgd(loss: str, alpha: float) -> Variant:
    return Variant(SGDClassifier(loss=loss, alpha=alpha, random_state=SEED))


VARIANTS: dict[str, dict[str, Variant]] = {
    "As trained, without copies": {"linear SVC, C = 0.3, words of the likeliest cause": Variant()},
    "Estimator": {
        **{f"linear SVC, C = {c:g}": svc(C=c) for c in (0.1, 1, 3)},
        "linear SVC, balanced classes": svc(class_weight="balanced"),
        **{
            f"logistic regression, C = {c}": Variant(LogisticRegression(C=c, max_iter=400, random_state=SEED))
            for c in (4, 30)
        },
        "SGD, hinge": sgd("hinge", 3e-5),
        "SGD, log loss": sgd("log_loss", 1e-5),
        "SGD, modified Huber": sgd("modified_huber", 1e-4),
        "ridge": Variant(RidgeClassifier(alpha=1.0, random_state=SEED)),
        "complement naive Bayes": Variant(ComplementNB(alpha=0.1)),
        "complement naive Bayes, words only": Variant(ComplementNB(alpha=0.1), features=None),
    },
    "Document": {
        "the earliest failure's words": Variant(words=earliest),
        "all failures' words together": Variant(words=of_all),
        "the three likeliest causes' words": Variant(words=of_three),
        "the same, the second's and third's marked": Variant(words=of_three_apart, max_terms=80_000),
    },
    "Words": {
        "hashed to 2^15": Variant(hashed=2**15, min_df=1),
        "hashed to 2^18": Variant(hashed=2**18, min_df=1, max_terms=2**18),
        "term frequency as it is": Variant(sublinear=False),
        "no idf": Variant(idf=False),
        "of a single log, too": Variant(min_df=1, max_terms=200_000),
        **{f"of at least {n} logs": Variant(min_df=n, max_terms=100_000) for n in (3, 5)},
        "the 10,000 most frequent": Variant(max_terms=10_000),
        "no word pairs": Variant(words=without("p")),
        "no single words": Variant(words=without("w")),
        "no parts of words": Variant(words=without("s", "et")),
        "no quoted names": Variant(words=without("q")),
        "no exception types": Variant(words=without("e", "et", "em")),
        "no kinds of statement": Variant(words=without("k")),
        "no frames": Variant(words=without("f", "f0", "fp", "fm", "fu", "fa", "o")),
        "and character n-grams, 3 to 5": Variant(words=lambda log: likeliest(log) + characters(log), max_terms=100_000),
        "character n-grams in place of words": Variant(
            words=lambda log: without("w", "p", "s")(log) + characters(log), max_terms=100_000
        ),
    },
    "Features": {
        "no structural features, no cues": Variant(features=None),
        "no cues": Variant(features=without_cues),
        "no structural features": Variant(features=only_cues),
        "no words": Variant(words=None),
        **{f"features times {factor:g}": Variant(features=times(factor)) for factor in (0.5, 2)},
    },
    "Training logs": {
        "copies without 30 % of the words": Variant(dropped=0.3),
        "copies without 50 % of the words": Variant(dropped=0.5),
        "copies without 30 % of words and features": Variant(dropped=0.3, dropped_features=0.3),
        **{f"damaged logs weigh {w:g}": Variant(weight=damaged(w)) for w in (0, 0.5, 2)},
        **{f"executed logs weigh {w:g}": Variant(weight=executed(w)) for w in (0, 3)},
    },
}
