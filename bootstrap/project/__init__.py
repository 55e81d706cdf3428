"""The files of a project.

init         writes those of `railhead init`
job_file     railhead.toml: named jobs, each with options of `fab train`
"""
