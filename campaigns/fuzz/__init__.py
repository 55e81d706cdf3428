"""Random bad input for `fab`: command lines, damaged files here, damaged files and answers there.

    python -m campaigns.fuzz --cases 1000 --seed 7      # --only N repeats one case

A case is correct if the command ends in time with exit code 0 to 3, prints no traceback and no
control character, and writes only where it may.
"""
