"""`python -m ddpclassify`."""

from ddpclassify.cli import main

main()
