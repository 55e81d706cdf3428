"""The carbon of a run: what its hosts measure, the coefficients, the formula and its result."""
