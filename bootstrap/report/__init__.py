"""Shows runs that have ended: a list, and a page in HTML for one run or for several.

`facts` reads a run's files, which a host wrote, and keeps only values of the right type; `page` and
`compare` are pure. May import `provision`, `runs` and above.
"""
