"""The evaluation of a model on held-out data: its figures, its worst pictures, evaluation.json.

A training evaluates its own model by it, and `--evaluate` one that was exported.
"""
