"""Simulated launches: people, laptops, stacks and a cloud, and everything that goes wrong.

`scenario` draws what happens, `world` is the cloud, `people` carries out the commands with the
decisions of the product, `model` runs a scenario and checks it. `on_the_engine` runs the same
scenarios with the real commands.
"""
