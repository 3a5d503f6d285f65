"""The machinery of jobs: claim one, run its passes, commit each, and hand the job on.

| module | does |
|---|---|
| `context` | holds what every job works with, made once per process |
| `scheduling` | remembers the owners served last and the jobs just finished |
| `jobs` | claims a job, runs it, and turns an unforeseen error into a retry or a dead job |
| `passes` | runs the passes of a claimed job until it is ended |
| `commit` | writes one pass: fence, revision, rows, attempt, audit entry, signals, the job's end |
| `lease` | renews the lease of a running job |
| `answer_store` | asks the summariser and stores each answer, so that none is paid for twice |
| `run_log` | writes the log lines of runs and passes |
"""
