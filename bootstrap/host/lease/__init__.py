"""Who supervises a run is a lease in its bucket. Only runs with `takeover` in run.json use it.

The chief has term 1. Its supervisor starts `holder`, which beats; all programs of the run look at
`run.held`, or are stopped by `fence`. `run.lease` decides.
"""
