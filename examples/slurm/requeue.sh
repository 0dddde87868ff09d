#!/usr/bin/env bash
# requeue.sh LOG: after a failure, at the end of a batch script; starts the job again only where that helps.
# Ends with the status of `ddpclassify predict --restart-code`.
set -u
most=${MOST_RESTARTS:-3}
ddpclassify predict --restart-code "$1"
status=$?
if [ "$status" -eq 11 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt "$most" ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
