"""The parts of a plan that start together: a group of machines, or each of its islands."""

from __future__ import annotations

from collections.abc import Collection
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
            _check_free(f"{name}-{number}", groups, f"island {number} of group {name}")
            built[f"{name}-{number}"] = Part(
                environment={**environment, **_of_island(group, environment, number)}, group=group
            )
    return built


def one_by_one(several: dict[str, Part], providers: Collection[str]) -> dict[str, Part]:
    """Divide the parts at some providers into their machines.

    Raises
    ------
    PlacerError
        If the machines of an island would be divided.
    """
    built: dict[str, Part] = {}
    for name, part in several.items():
        if part.group is None or part.group.provider not in providers or part.machines == 1:
            built[name] = part
            continue
        if part.group.machines > 1:
            raise PlacerError(
                f"machines of {part.group.provider} cannot be joined to islands, as {name} needs",
                "plan with --machines-per-island 1, or use --to torchrun",
            )
        for number in range(part.machines):
            _check_free(f"{name}-{number}", several, f"machine {number} of group {name}")
            offsets = {"PLACER_GROUP_SIZE": "1", **_moved(part.environment, number)}
            built[f"{name}-{number}"] = Part(
                environment={**part.environment, **offsets}, group=part.group
            )
    return built


def _check_free(name: str, taken: Collection[str], what: str) -> None:
    if name in taken:
        raise PlacerError(f"{what} would be called as group {name}", "give that group another name")


def _moved(environment: dict[str, str], number: int) -> dict[str, str]:
    """Return the offsets of a machine, one a rank and one an island."""
    keys = ("PLACER_RANK_OFFSET", "PLACER_ISLAND_OFFSET")
    return {key: str(int(environment[key]) + number) for key in keys if key in environment}


def _of_island(group: Group, environment: dict[str, str], number: int) -> dict[str, str]:
    return {
        "PLACER_GROUP_SIZE": str(group.machines),
        "PLACER_RANK_OFFSET": str(group.rank_offset + number * group.machines),
        "PLACER_ISLAND_OFFSET": str(int(environment["PLACER_ISLAND_OFFSET"]) + number),
    }
