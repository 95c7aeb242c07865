"""The parts of a plan that start together: a group of machines, or each of its islands."""

from __future__ import annotations

from dataclasses import dataclass

from placer.documents.manifest.types import Group
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.environment import machines


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Machines that a target starts as one.

    Notes
    -----
    ``environment`` holds their variables: ``PLACER_GROUP_SIZE`` machines, the first of which has
    rank ``PLACER_RANK_OFFSET``. ``group`` is theirs in the manifest; None: a parameter server.
    """

    environment: dict[str, str]
    group: Group | None

    @property
    def machines(self) -> int:
        """Return the number of machines."""
        return int(self.environment["PLACER_GROUP_SIZE"])


def parts(plan: ExportPlan) -> dict[str, Part]:
    """List the parts by name, in the order of ranks; of a group of islands, each island.

    Raises
    ------
    PlacerError
        If an island would get the name of another group.
    """
    groups = {group.name: group for group in plan.manifest.groups}
    built: dict[str, Part] = {}
    for name, environment in machines(plan).items():
        group = groups.get(name)
        if group is None or not group.is_island or group.count == 1:
            built[name] = Part(environment=environment, group=group)
            continue
        for number in range(group.count):
            if f"{name}-{number}" in groups:
                raise PlacerError(
                    f"island {number} of group {name} would be called as group {name}-{number}",
                    "give that group another name",
                )
            built[f"{name}-{number}"] = Part(
                environment={**environment, **_of_island(group, environment, number)}, group=group
            )
    return built


def _of_island(group: Group, environment: dict[str, str], number: int) -> dict[str, str]:
    return {
        "PLACER_GROUP_SIZE": str(group.machines),
        "PLACER_RANK_OFFSET": str(group.rank_offset + number * group.machines),
        "PLACER_ISLAND_OFFSET": str(int(environment["PLACER_ISLAND_OFFSET"]) + number),
    }
