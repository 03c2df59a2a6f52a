"""Errors of this package."""


class OnbeatError(Exception):
    """Base of all errors of this package. `code` is an identifier that a script can compare."""

    code = "onbeat"
