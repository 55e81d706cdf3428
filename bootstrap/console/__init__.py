"""Output for people and for programs: plain lines, live lines on a terminal, text formatting.

May import `errors`.
"""
