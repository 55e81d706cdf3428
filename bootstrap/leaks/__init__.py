"""`fab leaks`: everything with Railhead's tags in the clouds, and what belongs to no living stack.

`survey` lists it, `living` reads which stacks and recorded clusters there are, `report` compares
the two, and `end` removes what leaked. `command` does all of it.
"""
