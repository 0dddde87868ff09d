"""What was tried for the category: the variants of its model in `tried.py`, measured alike, as a Markdown table.

Usage: ``python benchmarks/variants.py [CORPUS...] [--also CORPUS] [--only TEXT] [--folds SEED]``. The corpora are the
built-in ones by default. Every variant answers the same logs: in grouped five-fold cross-validation no model has seen
the fault template of a log that it is asked about, neither the one that says which failure is the cause, which is
fitted once for all, nor the category's. Of `--also`, a corpus that is never trained on, the models of all logs are
asked.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer
from sklearn.model_selection import GroupKFold, StratifiedKFold
from threadpoolctl import threadpool_limits
from tried import VARIANTS, Log, Variant, is_executed

from ddpclassify.evaluation.metrics import Marks, estimate, mark
from ddpclassify.evaluation.prediction import Prediction
from ddpclassify.features import Features
from ddpclassify.train import fit, load_samples
from ddpclassify.train.builtin import builtin_corpora
from ddpclassify.train.cache import default_cache
from ddpclassify.train.confidence import temperature
from ddpclassify.train.linear import FEW, FOLDS, SEED, identity


class Bench:
    """Logs to train on and, behind them, logs that are only asked about."""

    def __init__(self, trained: Sequence[Log], also: Sequence[Log], seed: int | None = None) -> None:
        self.logs = [*trained, *also]
        self.labelled = [log.sample.labelled for log in self.logs]
        self.y = np.array([label.category for label in self.labelled])
        self.groups = np.array([log.sample.group for log in trained])
        n = len(trained)
        self.all, self.also = np.arange(n), np.arange(n, len(self.logs))
        self.executed = [i for i in range(n) if is_executed(self.logs[i].sample)]
        folds = GroupKFold(min(FOLDS, len(set(self.groups))), shuffle=seed is not None, random_state=seed)
        self.folds = list(folds.split(self.all, groups=self.groups))
        random = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(self.all, self.y[:n])
        self.random = next(random)
        self.counted = cache(self._counted)
        self.named = cache(self._named)

    def _counted(self, words: Callable[[Log], list[str]], hashed: int) -> Any:
        counter = (
            HashingVectorizer(analyzer=identity, n_features=hashed, alternate_sign=False, norm=None)
            if hashed
            else CountVectorizer(analyzer=identity, dtype=np.float64)
        )
        return counter.fit_transform([words(log) for log in self.logs]).tocsr()

    def _named(self, features: Callable[[Log], Features]) -> Any:
        return DictVectorizer(dtype=np.float64).fit_transform([features(log) for log in self.logs]).tocsr()

    def probabilities(self, variant: Variant, train: Any, test: Any, classes: Sequence[str]) -> Any:
        """Fit on some logs and return what the model says of others; 0 for a category that it did not see."""
        rng = np.random.default_rng(SEED)
        weight = np.array([variant.weight(self.logs[i].sample) for i in train])
        train, weight = train[weight > 0], weight[weight > 0]
        double = bool(variant.dropped or variant.dropped_features)
        fitted_on, asked = [], []
        if variant.words is not None:
            counts = self.counted(variant.words, variant.hashed)
            counts = counts[:, frequent(counts[train], variant.min_df if len(train) >= FEW else 1, variant.max_terms)]
            tfidf = TfidfTransformer(sublinear_tf=variant.sublinear, use_idf=variant.idf).fit(counts[train])
            copies = [thinned(counts[train], variant.dropped, rng)] if double else []
            fitted_on.append(tfidf.transform(sparse.vstack([counts[train], *copies])))
            asked.append(tfidf.transform(counts[test]))
        if variant.features is not None:
            named = self.named(variant.features)
            named = named[:, frequent(named[train], 1, named.shape[1])]
            copies = [thinned(named[train], variant.dropped_features, rng)] if double else []
            fitted_on.append(sparse.vstack([named[train], *copies]))
            asked.append(named[test])
        y = np.concatenate([self.y[train]] * 2) if double else self.y[train]
        weights = np.concatenate([weight / 2] * 2) if double else weight
        model = clone(variant.model).fit(sparse.hstack(fitted_on).tocsr(), y, sample_weight=weights)
        score = model.decision_function if hasattr(model, "decision_function") else model.predict_joint_log_proba
        scores = score(sparse.hstack(asked).tocsr())
        if scores.ndim == 1:
            scores = np.stack([np.zeros(len(scores)), scores], axis=1)
        out = np.zeros((len(test), len(classes)))
        out[:, [classes.index(name) for name in model.classes_]] = softmax(scores, axis=1)
        return out

    def marks(self, logs: Any, probabilities: Any, classes: Sequence[str], t: float) -> Marks:
        sure = softmax(np.log(np.clip(probabilities, 1e-12, 1)) / t, axis=1)
        given = [Prediction(classes[row.argmax()], confidence=float(row.max())) for row in sure]
        return mark([self.labelled[i] for i in logs], given)

    def measure(self, variant: Variant, first: Marks | None) -> tuple[list[str], Marks]:
        """Return the cells of the variant's row, and its marks on the held-out logs."""
        classes = sorted(set(self.y[self.all]))
        out = np.zeros((len(self.all), len(classes)))
        start = time.process_time()
        for train, test in self.folds:
            out[test] = self.probabilities(variant, train, test, classes)
        seconds = (time.process_time() - start) / len(self.folds)
        truth = [classes.index(name) for name in self.y[self.all]]
        known = np.flatnonzero(out[self.all, truth] > 0)  # see `train.fit`
        t = temperature(out[known], [truth[i] for i in known])
        held = self.marks(self.all, out, classes, t)
        cells = ["" if first is None else gain(held["right"] - first["right"], self.groups)]
        for marks in (held, held.select(self.executed)):
            cells += [share(metric, marks) for metric in ("category_acc", "macro_f1", "confident", "confident_wrong")]
        train, test = self.random
        cells.append(
            share("category_acc", self.marks(test, self.probabilities(variant, train, test, classes), classes, t))
        )
        if len(self.also):
            asked = self.probabilities(variant, self.all, self.also, classes)
            cells.append(share("category_acc", self.marks(self.also, asked, classes, t)))
        return [*cells, f"{seconds:.1f}"], held


def frequent(counts: Any, least: int, most: int) -> Any:
    """Return the columns that occur in enough rows; where these are too many, those with the highest sums."""
    kept = np.flatnonzero(counts.getnnz(axis=0) >= least)
    sums = np.asarray(counts.sum(axis=0)).ravel()[kept]
    return np.sort(kept[np.argsort(-sums, kind="stable")[:most]])


def thinned(matrix: Any, share: float, rng: np.random.Generator) -> Any:
    """Return a copy without a share of the entries."""
    copy = matrix.copy()
    copy.data *= rng.random(copy.nnz) >= share
    copy.eliminate_zeros()
    return copy


def share(metric: str, marks: Marks) -> str:
    value = estimate(metric, marks, resamples=1).value
    return "–" if math.isnan(value) else f"{value:.3f}"


def gain(better: Any, groups: Any) -> str:
    """Return a mean difference in points with the half width of its 95 % bootstrap interval over templates."""
    codes = np.unique(groups, return_inverse=True)[1]
    sums, sizes = np.bincount(codes, better), np.bincount(codes)
    drawn = np.random.default_rng(0).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=1000)
    low, high = np.percentile(100 * (drawn @ sums) / (drawn @ sizes), [2.5, 97.5])
    return f"{100 * better.mean():+.1f} ± {(high - low) / 2:.1f}"


def bench(corpora: Sequence[Path], also: Path | None, seed: int | None) -> Bench:
    """Read the logs, and ask the cause models about them."""
    samples = load_samples(corpora, cache=default_cache())
    training = fit(samples, asked=range(len(samples)))
    logs = [Log(sample, training.answers[i].cause) for i, sample in enumerate(samples)]
    others = []
    for sample in load_samples([also], cache=default_cache()) if also else []:
        rows = zip(sample.described.tokens, sample.described.places, strict=True)
        others.append(Log(sample, tuple(training.parts.cause.probabilities(w, x)[1] for w, x in rows)))
    return Bench(logs, others, seed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, each row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", type=Path, metavar="CORPUS")
    parser.add_argument(
        "--also", type=Path, metavar="CORPUS", help="ask about these logs, too, but never train on them"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="variants with this text in their name")
    parser.add_argument("--folds", type=int, metavar="SEED", help="draw other folds")
    options = parser.parse_args(arguments)
    logs = bench(options.corpora or builtin_corpora(), options.also, options.folds)
    four = ("right", "macro-F1", "sure", "wrong if sure")
    head = ["variant", "points", *four, *(f"executed: {each}" for each in four), "random split"]
    head += [*([f"{options.also.name}, {len(logs.also)} logs"] if len(logs.also) else []), "CPU s"]
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head), flush=True)
    first: Marks | None = None
    with threadpool_limits(limits=1):
        for section, variants in VARIANTS.items():
            chosen = {k: v for k, v in variants.items() if first is None or options.only in k}
            if chosen:
                print(f"| **{section}** |" + " |" * (len(head) - 1))
            for name, variant in chosen.items():
                cells, held = logs.measure(variant, first)
                first = first or held
                print("| " + " | ".join([name, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
