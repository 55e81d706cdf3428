"""The same contract in a bare Starlette handler, which calls the model once per request."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from training.serving.model import load


def main(model: str, port: str) -> None:
    """Serve until the process is ended."""
    predict = load(Path(model)).functions["serving_default"]

    async def handler(request: Request) -> Response:
        rows = json.loads(await request.body())["instances"]
        outputs = await run_in_threadpool(predict, {"x": np.array(rows, dtype=np.float32)})
        return JSONResponse({"predictions": next(iter(outputs.values())).tolist()})

    app = Starlette(routes=[Route("/v1/models/m:predict", handler, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
