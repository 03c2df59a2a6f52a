"""Data sets in object stores, s3://BUCKET/NAME: DuckDB's extension for them from its wheel, credentials from the environment."""

import os
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import duckdb

from .errors import FleetError

SCHEME = "s3://"
WHEEL = "duckdb-extension-httpfs"


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def is_address(path: str | Path) -> bool:
    """Whether this is an address of an object store, and not a directory."""
    return str(path).startswith(SCHEME)


def reach(connection: duckdb.DuckDBPyConnection) -> None:
    """Gives an engine the extension and the credentials that object stores take."""
    version = f"v{duckdb.__version__}"
    try:
        extension = files(WHEEL.replace("-", "_")) / "extensions" / version / "httpfs.duckdb_extension"
    except ModuleNotFoundError:
        extension = None
    if extension is None or not extension.is_file():
        raise FleetError(f"{SCHEME} needs DuckDB's extension of the same version; install it: pip install {WHEEL}=={duckdb.__version__}")
    connection.execute(f"LOAD {quoted(str(extension))}")
    listed = ", ".join(f"{name} {value}" for name, value in _secret().items())
    connection.execute(f"CREATE SECRET fleet (TYPE s3, {listed})")


def _secret() -> dict[str, str]:
    """Who asks, and of which store: the variables that other clients of S3 know, as SQL."""
    known = {"KEY_ID": "AWS_ACCESS_KEY_ID", "SECRET": "AWS_SECRET_ACCESS_KEY", "SESSION_TOKEN": "AWS_SESSION_TOKEN"}
    secret = {name: quoted(os.environ[variable]) for name, variable in known.items() if os.environ.get(variable)}
    secret["REGION"] = quoted(os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1")
    own = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if own:
        url = urlsplit(own)
        secret |= {"ENDPOINT": quoted(url.netloc), "URL_STYLE": "'path'", "USE_SSL": str(url.scheme == "https").lower()}
    return secret
