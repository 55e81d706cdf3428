"""Workflows that train several runs, one after another or at once, and compare them on a page."""
