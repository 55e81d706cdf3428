"""Serves a trained model over HTTP, by the REST contract of TensorFlow Serving.

`python -m training.serving --model FOLDER --name digits` needs TensorFlow, Starlette and uvicorn.

    settings   what is served, where, and the limits; checked at the start
    signature  the inputs and outputs of a model, and checks of arrays against them
    rest       JSON of requests and responses
    row_check  finds signatures whose rows mix
    batching   concurrent requests become one call of the model
    model      loads a SavedModel or a .keras file, and warms it up
    versions   the newest version of a folder; takes over without a refused request
    metrics    counters and histograms as Prometheus text
    connections     time limits for what a client sends
    bodies     limits of the bodies of requests, and gzip
    large      a process for large bodies and answers
    app        the HTTP interface
    client     sends files and held-out samples to a served model
"""
