"""Images of clothes in files of MNIST's format, with its file names."""

from __future__ import annotations

from .download import fetch as fetch
from .mnist import read as read
