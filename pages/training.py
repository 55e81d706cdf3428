"""docs/training.md and docs/data.md: the files of `training`, its models and its formats."""

from __future__ import annotations

from importlib import import_module

from railhead.variables import AS_IN_SAGEMAKER, OF_MODEL_TRAINER, OF_SAGEMAKER
from training import registry

from .marked import ROOT, about, table

PROGRAMS = import_module("tests.tested_programs")  # for mypy: the module `tested_programs`
FOLDERS = ("checkpoints", "evaluation", "learning", "models", "serving", "strategies")


def parts() -> dict[str, str]:
    """The generated parts of docs/training.md."""
    return {"files": files(), "models": model_table(), "programs": PROGRAMS.table()}


def parts_of_data() -> dict[str, str]:
    """The generated parts of docs/data.md."""
    rows = [(f"`{name}`", about(module)) for name, module in registry.DATASETS.items()]
    return {
        "formats": table(("`data`", "what is in the folder"), rows),
        "sagemaker": sagemaker(),
    }


def sagemaker() -> str:
    """The variables of `--sagemaker`."""
    rows = [(f"`{name}`", value) for name, value in OF_SAGEMAKER.items()]
    others = ", ".join(f"`{name}`" for name in AS_IN_SAGEMAKER)
    rows += [(others, "as in the toolkit")]
    rows += [(f"`{name}`", f"with `--sagemaker 3`: {v}") for name, v in OF_MODEL_TRAINER.items()]
    return table(("variable", "value"), rows)


def model_table() -> str:
    """The models of the built-in training."""
    rows = [(f"`{name}`", about(module)) for name, module in registry.MODELS.items()]
    return table(("model", "what it is, and what it is for"), rows)


def files() -> str:
    """The modules of `training` with the first sentence of their docstrings."""
    folder = ROOT / "training"
    paths = [path.name for path in sorted(folder.glob("*.py"))]
    paths += [f"{name}/" for name in FOLDERS]
    paths += [f"data/{path.name}" for path in sorted((folder / "data").glob("*.py"))]
    named = [path for path in paths if not path.endswith("__init__.py")]
    return table(("file", "what it does"), [(f"`{path}`", _sentence(path)) for path in named])


def _sentence(path: str) -> str:
    module = f"training.{path.removesuffix('.py').strip('/').replace('/', '.')}"
    return about(module).partition(". ")[0]
