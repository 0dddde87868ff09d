"""Many logs: diagnose them all on any number of processes, keep the answers, and tell what jobs have in common.

Data flows one way: listing → engine (`work` in each process) → store (parts of JSON Lines, indexed in SQLite) →
summary → text, page, metrics.
"""
