"""The evaluation of a model on held-out data: its figures, its worst pictures, evaluation.json.

A training uses it for its own model, `--evaluate` for an exported one.
"""
