"""The error of this package."""

from ..errors import OnbeatError


class FleetError(OnbeatError):
    """A data set or a question that cannot be answered. The text is a sentence for users."""

    code = "onbeat:fleet"
