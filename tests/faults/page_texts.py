"""What the pages say while a fault lasts, word by word; docs/reliability.md shows the same."""

PAGE_TEXTS = {
    "Valkey is killed": "Valkey does not answer. Workers are not told what to do, so nothing is "
    "submitted or collected; nothing is lost: what is to be done stands in PostgreSQL.",
    "PostgreSQL is killed": "Jobs on the clusters go on, and no result is lost.",
    "sshd is frozen": "Nothing is lost. Tare asks again at",
    "slurmctld is killed": "Slurm does not answer: ",
    "all nodes are drained": "in Slurm’s queue: a node that it needs is down, drained or reserved",
    "the power of a node is cut": "tried again by rule",
    "the demo is ended": "tried again by rule",
    "Slurm forgets jobs that wait": "lost before it began (neither squeue nor sacct knows the job, "
    "and it had not begun: Tare has claimed its directory, so no copy of it can begin)",
    "Slurm forgets jobs that wait, not their accounts": "lost before it began (sacct: CANCELLED "
    "0:0 by nobody, as when Slurm's controller has lost its state, and it had not begun: ",
    "a job is cancelled outside": "cancelled outside sacct: cancelled by",
    "a directory is deleted": "is not there.",
    "the directory of a waiting job is deleted": "its output: The files of this job are no longer",
    "a running job vanishes": "the job left no exit code",
    "the disk is full while jobs run": "the job could not write its last files (exit code 73): the "
    "disk or the quota was full",
    "the disk is full": "Paused, disk full: no jobs are sent to",
}
