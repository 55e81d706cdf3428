"""Measures the energy of a host while its ranks run."""
