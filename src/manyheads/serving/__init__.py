"""Every head of a model over HTTP, from one encoder pass. Needs the extra `serve`."""

from importlib.util import find_spec

from manyheads.errors import UserError

for _package in ("starlette", "uvicorn", "httptools", "orjson", "prometheus_client"):
    if find_spec(_package) is None:
        raise UserError(f"serve: {_package} is not installed; pip install 'manyheads[serve]'.", code="not-installed")
