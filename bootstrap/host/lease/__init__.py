"""A lease in a run's bucket decides which host supervises the run. Only runs with `takeover` in
run.json use it.

The chief has term 1. Its supervisor starts `holder`, which writes the beats. All programs of the
run check `run.held`, or `fence` stops them. `run.lease` has the rules.
"""
