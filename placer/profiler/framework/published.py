"""Published and assumed efficiencies of frameworks, for models on which nothing was measured."""

from __future__ import annotations

from statistics import fmean

from placer.workload.profile import Efficiency, load_profile, profile_names

UNPUBLISHED = (1.0, 0.8, 1.0)
"""Value, low and high of a framework without published figures: assumed, as in
`ModelProfile.rate`.
"""


def published_efficiency(name: str, family: str, framework: str, reason: str = "") -> Efficiency:
    """Look up the efficiency of a model in the shipped profiles.

    Parameters
    ----------
    name, family
        Of the model. The shipped profile of that name is used; without one the mean over the
        measured models of its family, and without these over all measured models.
    framework
        ``hivemind`` is published (Erben et al., PVLDB 17(6), 2024); ``ddp`` is not.
    reason
        Put before the source: why nothing was measured.

    Returns
    -------
    Efficiency
        ``published`` if it is this model's own figure. ``assumed`` if it is a mean over other
        models: then the interval reaches from the lowest to the highest of them.
    """
    rows = [
        (profile.name, profile.family, row)
        for profile in map(load_profile, profile_names())
        for row in profile.efficiency
        if row.framework == framework
    ]
    for model, _, row in rows:
        if model == name and row.basis == "measured":
            return Efficiency(
                framework=framework,
                value=row.value,
                low=row.low,
                high=row.high,
                basis="published",
                source=f"{reason}{row.source}",
            )
    measured = [(kind, row) for _, kind, row in rows if row.basis in ("measured", "published")]
    same_family = [row for kind, row in measured if kind == family]
    return _mean(framework, family, reason, same_family, [row for _, row in measured])


def _mean(
    framework: str,
    family: str,
    reason: str,
    same_family: list[Efficiency],
    measured: list[Efficiency],
) -> Efficiency:
    """Average over the family, else over all models, else assume `UNPUBLISHED`."""
    rows = same_family or measured
    if not rows:
        value, low, high = UNPUBLISHED
        source = f"{reason}nobody published {framework}'s share: taken as {value:g}"
        return Efficiency(
            framework=framework, value=value, low=low, high=high, basis="assumed", source=source
        )
    which = f"{len(rows)} {family} models" if same_family else f"all {len(rows)} models"
    return Efficiency(
        framework=framework,
        value=round(fmean(row.value for row in rows), 3),
        low=min(row.low for row in rows),
        high=max(row.high for row in rows),
        basis="assumed",
        source=f"{reason}mean of {which} of Erben et al. (PVLDB 17(6), 2024) under {framework}; "
        f"not measured for this one",
    )
