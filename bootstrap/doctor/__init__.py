"""`fab doctor`: checks this computer, the credentials, the rights and the cloud before `fab up`.

Facts are read, checks follow from them, and each check names the command that corrects it.
"""
