"""The version of Railhead: pyproject.toml and `railhead.__version__` have it from here."""

VERSION = "0.2.0"
