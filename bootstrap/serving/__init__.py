"""Endpoints: a model served on a host or on this computer until its time-to-live is over.

request      the options of `fab deploy`, checked
records      which endpoints this user has deployed, and where
place        a host, or this computer, on which endpoints are created and terminated
on_host      finds endpoints on the hosts themselves
source       the model to deploy: of a run, or a folder or file
state        state.json of an endpoint, checked: it comes from a host
model        finds the model of a run
environment  the runtime and the packages for serving
tensorflow_serving  the host's own TensorFlow Serving in place of our server
deploy       starts an endpoint, or gives one a new version
undeploy     terminates an endpoint, and verifies that nothing remains of it
predict      sends files or held-out samples to an endpoint
notebook     JupyterLab on the chief, terminated in the same way as an endpoint

May import `lifecycle`, `evaluation`, `report` and above, but not `health`.
"""
