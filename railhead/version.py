"""The version of Railhead: pyproject.toml and `railhead.__version__` have it from here."""

VERSION = "0.1.0"
