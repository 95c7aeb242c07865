"""The parts of a plan that start together: a group of machines, or each of its islands that is a
world of its own.
"""

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

    @property
    def rank(self) -> int:
        """Return the rank of its first machine."""
        return int(self.environment["PLACER_RANK_OFFSET"])

    @property
    def meets_at(self) -> int | None:
        """Return the rank of the machine at which its machines meet as a world; None: they are
        worlds of one machine each.
        """
        alone = self.environment["PLACER_WORLD_MACHINES"] == "1"
        return None if alone else int(self.environment["PLACER_WORLD_FIRST"])


def parts(plan: ExportPlan) -> dict[str, Part]:
    """List the parts by name, in the order of ranks; of islands that are worlds, each island.

    Raises
    ------
    PlacerError
        If an island would get the name of another group.
    """
    groups = {group.name: group for group in plan.manifest.groups}
    built: dict[str, Part] = {}
    for name, environment in machines(plan).items():
        group = groups.get(name)
        whole = environment["PLACER_WORLD_STEP"] == environment["PLACER_GROUP_SIZE"]
        if group is None or not group.is_island or whole:
            built[name] = Part(environment=environment, group=group)
            continue
        for number in range(group.count):
            _check_free(f"{name}-{number}", groups, f"island {number} of group {name}")
            built[f"{name}-{number}"] = Part(
                environment={**environment, **_moved(environment, number, group.machines)},
                group=group,
            )
    return built


def holder(several: dict[str, Part], rank: int) -> tuple[str, int]:
    """Return the name of the part that holds a machine, and the machine's number in it."""
    return next(
        (name, rank - part.rank)
        for name, part in several.items()
        if part.rank <= rank < part.rank + part.machines
    )


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
            built[f"{name}-{number}"] = Part(
                environment={**part.environment, **_moved(part.environment, number)},
                group=part.group,
            )
    return built


def _check_free(name: str, taken: Collection[str], what: str) -> None:
    if name in taken:
        raise PlacerError(f"{what} would be called as group {name}", "give that group another name")


def _moved(environment: dict[str, str], number: int, machines: int = 1) -> dict[str, str]:
    """Return the variables of a part that begins some machines after the first of its group."""
    before = number * machines
    moved = {
        "PLACER_GROUP_SIZE": str(machines),
        "PLACER_RANK_OFFSET": str(int(environment["PLACER_RANK_OFFSET"]) + before),
    }
    if environment["PLACER_WORLD_STEP"] != str(machines):
        return moved  # all are in one world
    return {
        **moved,
        "PLACER_WORLD_OFFSET": str(int(environment["PLACER_WORLD_OFFSET"]) + number),
        "PLACER_WORLD_FIRST": str(int(environment["PLACER_WORLD_FIRST"]) + before),
    }
