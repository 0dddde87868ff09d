#!/usr/bin/env bash
# Slurm epilog: puts a diagnosis beside the output of every batch job that failed.
#
#   slurm.conf:  Epilog=/etc/slurm/epilog.sh
#
# Runs as root on every node of a job when the job ends. A status other than 0 would drain the node, so it never gives
# one; everything that touches the user's files runs as the user, at low priority, and for a minute at most.
set -u
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin # slurmd gives none
DDPCLASSIFY=${DDPCLASSIFY:-ddpclassify} # a path that every user may run

id=${SLURM_JOB_ID:-}
user=${SLURM_JOB_USER:-}
[ -n "$id" ] && [ -n "$user" ] || exit 0

job=$(scontrol show job "$id" -o 2>/dev/null) || exit 0
field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p" <<<"$job"; }

# Once a job: on the node that ran the batch script. Interactive jobs have no output file.
[ "$(field BatchHost)" = "${SLURMD_NODENAME:-$(hostname -s)}" ] || exit 0
case $(field ExitCode) in 0:0 | '') exit 0 ;; esac
log=$(field StdOut)
case $log in '' | /dev/null) exit 0 ;; esac

# In a session of its own: slurmd ends what is left of its scripts, and the node is free at once.
# shellcheck disable=SC2016
setsid -f timeout 60 nice -n 19 runuser -u "$user" -- bash -c '
  out=$1.diagnosis
  { date "+%F %T"; "$2" predict "$1"; } >"$out.$$" 2>&1 && mv "$out.$$" "$out" || rm -f "$out.$$"
' diagnose "$log" "$DDPCLASSIFY" </dev/null >/dev/null 2>&1
exit 0
