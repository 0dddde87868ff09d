"""Real runs: small gloo jobs on this machine, with faults injected, recorded and labelled."""

from ddpclassify.generate.jobs.plan import JobPlan, faults, make_plan
from ddpclassify.generate.jobs.runner import run_all

__all__ = ["JobPlan", "faults", "make_plan", "run_all"]
