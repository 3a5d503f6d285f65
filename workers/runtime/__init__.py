"""The job runtime: claim a job, run its passes, commit each, and end the job.

| module | does |
|---|---|
| `context` | holds what every job of a process works with |
| `scheduling` | remembers the owners served last and the jobs just finished |
| `jobs` | claims a job, runs it, and turns an unexpected error into a retry or a dead job |
| `passes` | runs the passes of a claimed job until one ends it |
| `pass_context` | holds the state of one job and one pass, and the result of a pass |
| `commit` | writes one pass: fence, revision, rows, attempt, audit entry, signals, the job's end |
| `lease` | renews the lease of a running job |
| `answer_store` | calls the summariser and stores each answer, so that none is paid for twice |
| `run_log` | writes the log lines of runs and passes |
"""
