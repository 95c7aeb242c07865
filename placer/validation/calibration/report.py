"""A calibration with how it came about and how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from placer.market.catalog import Catalog
from placer.validation.calibration.outcome import Fitted
from placer.validation.calibration.parameters import Parameter
from placer.validation.calibration.quality import Check, Errors, errors_of
from placer.version import __version__
from placer.workload.overlay import SCHEMA, Overlay, overlay_document


@dataclass(frozen=True, kw_only=True)
class CalibrationReport:
    """An overlay, how it came about and how good it is."""

    overlay: Overlay
    file: str
    sha256: str
    created: str
    catalog: Catalog
    figures: tuple[Fitted, ...]
    unfitted: tuple[tuple[Parameter, str], ...]
    checks: tuple[Check, ...]
    warnings: tuple[str, ...]

    @property
    def before(self) -> Errors | None:
        """Errors with the published figures."""
        return errors_of([check.before for check in self.checks])

    @property
    def after(self) -> Errors | None:
        """Errors on the runs that were fitted."""
        return errors_of([check.after for check in self.checks])

    @property
    def left_out(self) -> Errors | None:
        """Errors on runs that the fit had not seen."""
        return errors_of([check.left_out for check in self.checks])

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.calibration/v1`` document: what ``--calibration`` reads, and a report.

        Errors are shares of 1.
        """
        figures = overlay_document(self.overlay)
        return {
            "schema": SCHEMA,
            "name": figures.pop("name"),
            "created": self.created,
            "placer_version": __version__,
            "catalog": {"name": self.catalog.name, "digest": self.catalog.digest},
            "runs": {"file": self.file, "sha256": self.sha256, "rows": max(1, len(self.checks))},
            **figures,
            "report": {
                "fitted": [
                    {
                        **_figure(f.parameter),
                        **{name: getattr(f, name) for name in FITTED},
                    }
                    for f in self.figures
                ],
                "not_fitted": [{**_figure(p), "because": why} for p, why in self.unfitted],
                "runs": [
                    {name: getattr(check, own) for name, own in CHECKED.items()}
                    for check in self.checks
                ],
                "errors": to_builtins(
                    {"before": self.before, "after": self.after, "left_out": self.left_out}
                ),
                "warnings": list(self.warnings),
            },
        }


FITTED = ("value", "low", "high", "runs", "at_limit")
CHECKED = {
    **{name: name for name in ("line", "model", "workers")},
    "samples_per_second": "measured",
    **{f"error_{name}": name for name in ("before", "after", "left_out")},
    **{name: name for name in ("weight", "outlier")},
}
"""Names of a run's figures in the document, and here."""


def _figure(p: Parameter) -> dict[str, Any]:
    names = ("kind", "key", "unit", "published")
    return {"figure": p.label, **{name: to_builtins(getattr(p, name)) for name in names}}
