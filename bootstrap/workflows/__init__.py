"""What each command does, in order. A task in `cli` checks its options and calls one of these.

A workflow takes the resolved hosts (an Inventory) and checked options.
May import everything except `cli`.
"""
