"""The figures of a run, as the program reports them."""

from typing import Any


class Summary:
    """The summary that `--json` prints. Its keys are attributes; `raw` is the whole object.

    Times are in nanoseconds where their name ends in `_ns`.
    """

    def __init__(self, raw: dict[str, Any]):
        self.raw = raw

    def __getattr__(self, name: str) -> Any:
        raw = self.__dict__.get("raw", {})
        if name in raw:
            return raw[name]
        raise AttributeError(f"the summary has no {name!r}; it has {', '.join(raw)}")

    def __repr__(self) -> str:
        sentence = (self.raw.get("verdict") or {}).get("sentence", "")
        return f"<onbeat.Summary: {sentence}>"

    @property
    def best(self) -> str | None:
        """The best cell, such as `S/idle`; `None` if none could be chosen."""
        best = (self.raw.get("verdict") or {}).get("best")
        return f"{best['tuning']}/{best['load']}" if best else None

    def cell(self, tuning: str, load: str) -> dict[str, Any]:
        """Returns the figures of a tuning under a load."""
        for cell in self.raw.get("cells", []):
            if (cell["tuning"], cell["load"]) == (tuning, load):
                return cell
        raise KeyError(f"the run has no cell {tuning}/{load}")
