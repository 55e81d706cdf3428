"""Serves a trained model over HTTP, by the REST contract of TensorFlow Serving.

`python -m training.serving --model FOLDER --name digits` needs TensorFlow, Starlette and uvicorn.
"""
