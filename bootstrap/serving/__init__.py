"""Endpoints: a model served on a host or on this machine until its time-to-live is over.

request      the options of `fab deploy`, checked
records      which endpoints this user has deployed, and where
place        a host, or this machine, on which endpoints are made and ended
on_host      finds endpoints on the hosts themselves
source       what is deployed: a run, or a folder or file
state        state.json of an endpoint, checked: it comes from a host
model        finds the model of a run
environment  the runtime and the packages that serve it
tensorflow_serving  the host's own TensorFlow Serving in place of our server
deploy       starts an endpoint, or gives one a new version
undeploy     ends one, and verifies that nothing of it is left
predict      sends files or held-out samples through it
notebook     JupyterLab on the chief, which is ended as an endpoint is

May import `lifecycle`, `evaluation`, `report` and above, but not `health`.
"""
