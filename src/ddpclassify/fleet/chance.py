"""Is it chance? Two tests, each corrected for how many are looked at (Bonferroni).

**A bad node.** Were nodes all alike, a failure that a node can bring about would strike every log equally often, and
each of its job's hosts equally likely. So host *h* would be the culprit

    expected(h) = q · Σ 1 / hosts(log)      over the logs in which h appears

times, where *q* is the share of such failures among the logs of which hosts are known. How often it is the culprit is
then a sum of independent yes-or-no draws, and P(Poisson(expected) ≥ seen) is at least as large as the true probability
when seen ≥ expected + 1 [1]_: the test errs on the side of silence. Since *q* counts what all logs tell, logs of jobs
that went well, or failed through their own code, make it sharper.

**A category that grows.** Of the logs in the last days and in as many days before, a share *p* is of the last days. A
category that kept its share would be Binomial(n, p) there.

References
----------
.. [1] T. W. Anderson, S. M. Samuels (1967): Some inequalities among binomial and Poisson probabilities. W. Hoeffding
   (1956) for draws of unequal probability.
"""

from __future__ import annotations

__all__ = ["LEVEL", "grows", "suspicious"]

LEVEL = 0.01
"""The chance that any good node at all is called bad, or any steady category growing."""

_FEW = 3  # jobs: fewer are no pattern, whatever the probability


def suspicious(seen: int, expected: float, hosts: int) -> float:
    """Return the corrected probability that a good node is the culprit as often as this or more.

    >>> suspicious(9, 0.5, hosts=200) < LEVEL < suspicious(3, 0.5, hosts=200)
    True
    """
    from scipy.stats import poisson

    if seen < max(_FEW, expected + 1):
        return 1.0
    return min(1.0, float(poisson.sf(seen - 1, expected)) * hosts)


def grows(now: int, before: int, share: float, categories: int) -> float:
    """Return the corrected probability that a steady category has so many of its logs in the last days.

    >>> grows(40, 10, 0.5, categories=25) < LEVEL < grows(12, 10, 0.5, categories=25)
    True
    """
    from scipy.stats import binom

    if now < _FEW or not 0 < share < 1:
        return 1.0
    return min(1.0, float(binom.sf(now - 1, now + before, share)) * categories)
