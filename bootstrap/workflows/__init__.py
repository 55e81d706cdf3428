"""The steps of each command, in order. A task in `cli` checks its options and calls one of these.

A workflow receives the resolved hosts (an Inventory) and checked options.
May import everything except `cli`.
"""
