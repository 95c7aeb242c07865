"""Published and assumed efficiencies of frameworks; `placer profile runs` measures them."""

from __future__ import annotations

from statistics import fmean

from placer.errors import unknown
from placer.records import replace
from placer.workload.profile import Efficiency, load_profile, profile_names

FRAMEWORKS = ("ddp", "hivemind")
UNPUBLISHED = (1.0, 0.8, 1.0)
"""Value, low and high of a framework without published figures: assumed, as in
`ModelProfile.rate`.
"""


def published_efficiency(name: str, family: str, framework: str) -> Efficiency:
    """Look up the efficiency of a model in the shipped profiles. ``published`` if it is this
    model's own figure. ``assumed`` if it is a mean over other models: then the interval reaches
    from the lowest to the highest of them. Raises `PlacerError` if there is no such framework.

    name, family: Of the model. The shipped profile of that name is used; without one the mean over
        the measured models of its family, and without these over all measured models.
    framework: One of `FRAMEWORKS`: ``hivemind`` is published (Erben et al., PVLDB 17(6), 2024),
        ``ddp`` is not.
    """
    if framework not in FRAMEWORKS:
        raise unknown("framework", framework, FRAMEWORKS)
    known = [
        (profile, row)
        for profile in map(load_profile, profile_names())
        for row in profile.efficiency
        if row.framework == framework and row.basis in ("measured", "published")
    ]
    for profile, row in known:
        if profile.name == name and row.basis == "measured":
            return replace(row, basis="published")
    same = [row for profile, row in known if profile.family == family]
    rows = same or [row for _, row in known]
    if not rows:
        value, low, high = UNPUBLISHED
        source = f"nobody published {framework}'s share: taken as {value:g}"
    else:
        value = round(fmean(row.value for row in rows), 3)
        low, high = min(row.low for row in rows), max(row.high for row in rows)
        which = f"{len(rows)} {family} models" if same else f"all {len(rows)} models"
        source = (
            f"mean of {which} of Erben et al. (PVLDB 17(6), 2024) under {framework}; "
            f"not measured for this one"
        )
    return Efficiency(
        framework=framework,
        value=value,
        low=low,
        high=high,
        basis="assumed",
        source=source,
    )
