"""Diagnoses of a corpus by models that never saw the group of the log: its template, launcher or workload."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sklearn.model_selection import GroupKFold

from ddpclassify.corpus.groups import group_of
from ddpclassify.diagnosis import decide
from ddpclassify.model.answers import Parts, answer
from ddpclassify.train.fit import fit
from ddpclassify.train.linear import FOLDS
from ddpclassify.train.samples import Sample
from ddpclassify.types import Diagnosis


def held_out(
    samples: Sequence[Sample],
    grouping: str,
    more: Sequence[Sample] = (),
    progress: Callable[[str], None] = lambda text: None,
    base: Parts | None = None,
) -> list[Diagnosis]:
    """Diagnose each log by models fitted on the logs of other groups, all five of them.

    Parameters
    ----------
    samples : labelled logs, shape (n,)
    grouping : what makes a group, one of `GROUPINGS`; at most `FOLDS` fits: small groups share one
    more : logs to learn from as well, but for those of the groups that are asked about
    base : a model that answers what the labels don't tell, as in `fit`
    """
    keys = [group_of(each.label, grouping) for each in samples]
    out: dict[int, Diagnosis] = {}
    folds = GroupKFold(n_splits=min(FOLDS, len(set(keys))))
    for number, (train, test) in enumerate(folds.split(np.zeros(len(samples)), groups=keys), 1):
        asked = {keys[i] for i in test}
        others = [each for each in more if group_of(each.label, grouping) not in asked]
        training = fit([*(samples[i] for i in train), *others], base=base)
        card = {"threshold": training.threshold}
        for i in test:
            described = samples[i].described
            out[int(i)] = decide(described, answer(described, training.parts), card)
        progress(f"fold {number} of {folds.n_splits}")
    return [out[i] for i in range(len(samples))]
