"""How well the built-in training learns small tables: against scikit-learn, in one run.

    PYTHON -m benchmarks.tables [--set NAME=VALUE ...]

PYTHON is a runtime's, which has TensorFlow; scikit-learn comes into an environment of uv. Ten
tables, five of them scikit-learn's own, each with three tenths as test data. The limit: an accuracy
not more than 2 points below the mean of a standardised linear model and of gradient boosting; an
absolute error (mae) at most 2 % of that of a constant above it. Exit code 1: it is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REFERENCE = r"""
import csv, json, sys
from pathlib import Path
import numpy as np
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, mean_absolute_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

random = np.random.RandomState(0)
year, age = random.randint(1990, 2024, 600), random.randint(18, 66, 600)
pay = random.lognormal(10, 0.5, 600).round()
people = np.c_[year, age, pay]
score = (age - 40) / 10 + (np.log(pay) - 10) / 0.5 + random.normal(0, 0.5, 600)
x, y = datasets.make_classification(1000, 20, n_informative=8, n_classes=3, random_state=0)
tables = {
    **{name: getattr(datasets, f"load_{name}")(return_X_y=True)
       for name in ("iris", "wine", "breast_cancer", "digits", "diabetes")},
    "people": (people, (score > 0).astype(int)),
    "moons": datasets.make_moons(400, noise=0.25, random_state=0),
    "scales": (x * np.logspace(-3, 5, 20) + 1000, y),
    "years": (people, 1990 + 3 * score),
    "friedman": datasets.make_friedman1(600, noise=1, random_state=0),
}
figures = {}
for name, (x, y) in tables.items():
    numbers = name in ("diabetes", "years", "friedman")
    parts = train_test_split(x, y, test_size=0.3, random_state=0, stratify=None if numbers else y)
    for split, rows, labels in (("train", parts[0], parts[2]), ("test", parts[1], parts[3])):
        path = Path(sys.argv[1], name, f"{split}.csv")
        path.parent.mkdir(exist_ok=True)
        with path.open("w") as out:
            lines = csv.writer(out)
            lines.writerow([*(f"c{i}" for i in range(x.shape[1])), "label"])
            lines.writerows([*row, label] for row, label in zip(rows.tolist(), labels.tolist()))
    linear = Ridge() if numbers else LogisticRegression(max_iter=2000)
    boosting = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    measure = mean_absolute_error if numbers else accuracy_score
    models = make_pipeline(StandardScaler(), linear), boosting(random_state=0)
    peers = [float(measure(parts[3], m.fit(parts[0], parts[2]).predict(parts[1]))) for m in models]
    constant = float(np.abs(parts[3] - parts[2].mean()).mean()) if numbers else None
    figures[name] = {"peers": peers, "constant": constant}
print(json.dumps(figures))
"""


def main() -> int:
    """Train each table; returns 0 if the limit is kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.tables")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        uv = [
            "uv",
            "run",
            "--no-project",
            "--with",
            "scikit-learn",
            "python",
            "-c",
            REFERENCE,
            name,
        ]
        figures = json.loads(subprocess.run(uv, check=True, stdout=subprocess.PIPE).stdout)
        kept = [
            train_table(Path(name), table, each, options.set) for table, each in figures.items()
        ]
    print(f"{sum(kept)} of {len(kept)} tables within the limit")
    return int(not all(kept))


def train_table(folder: Path, table: str, figures: dict[str, object], settings: list[str]) -> bool:
    """Train one table by itself, print its figures; whether the limit is kept."""
    peers, constant = figures["peers"], figures["constant"]
    assert isinstance(peers, list)
    results = folder / f"{table}-results"
    task = "classification" if constant is None else "regression"
    settings = [f"task={task}", "export=off", *settings]
    command = [sys.executable, "-m", "training", "--preset", "table"]
    command += ["--data", f"train={folder / table}"]
    command += ["--results", str(results), *(word for text in settings for word in ("--set", text))]
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environ)
    evaluation = json.loads((results / "evaluation.json").read_text())
    mean = sum(peers) / 2
    if isinstance(constant, float):
        score = evaluation["mae"]
        kept = score <= mean + 0.02 * constant
    else:
        score = evaluation["accuracy"]
        kept = score >= mean - 0.02
    each = ", ".join(f"{peer:.3f}" for peer in peers)
    print(
        f"{table:14} {score:8.3f}  linear, boosting: {each}  {'' if kept else 'NOT KEPT'}",
        flush=True,
    )
    return bool(kept)


if __name__ == "__main__":
    sys.exit(main())
