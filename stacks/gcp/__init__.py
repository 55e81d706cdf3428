"""The cluster in Google Cloud: n1 machines with cards, in one zone."""
