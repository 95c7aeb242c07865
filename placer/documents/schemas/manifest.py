"""Launch manifests of both versions, and what ``placer export`` says; see
`placer.documents.manifest`.
"""

from __future__ import annotations

from msgspec import UNSET

from placer.documents.manifest.types import ISLANDS_SCHEMA, AnyManifest, Group, MachineGroup
from placer.documents.manifest.versions import SCHEMA
from placer.documents.schemas.parts import Maybe, Part, Some
from placer.documents.schemas.result import SavedProblem
from placer.records import Count


class Manifest(AnyManifest, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """All that an executor needs; no secrets. digest is the SHA-256 of the document without it
    (keys sorted, no spaces). Early files of this version lack rendezvous, buckets, groups.data,
    timeouts.poll_s and drift.max_round_seconds; readers work them out from the rest. They also lack
    groups.samples_per_second and question.

    question: The problem that the plan answers, cut down to what it uses: links, prices, speeds.
        placer rehearse times the plan again with it.
    """

    groups: Some[MachineGroup]
    question: Maybe[SavedProblem | None] = UNSET


class IslandManifest(
    AnyManifest, frozen=True, kw_only=True, tag_field="schema", tag=ISLANDS_SCHEMA
):
    """As placer.manifest/v1, of workers that are islands: machines of one offer in one zone that
    hold one copy of the model by an inner plan. world_size, rank_offset and rendezvous.machines
    count machines; the machines of one island have ranks in a row.
    """

    groups: Some[Group]
    question: Maybe[SavedProblem | None] = UNSET


class LaunchFile(Part, frozen=True):
    """A launch file."""

    name: str
    bytes: Count


class Fallback(Part, frozen=True):
    """A fallback of the plan.

    manifest: Digest of the manifest.
    dir: Where its files are.
    tried_by_itself: The plan's own files try it; else it has a folder of its own.
    """

    manifest: str
    dir: str
    tried_by_itself: bool


class Export(Part, frozen=True, tag_field="schema", tag="placer.export/v1"):
    """Launch files that were written, or with --diff would be.

    manifest: Digest of the manifest.
    removed: Files of an earlier export.
    fallbacks: Fallbacks of the plan, in order; only with --fallback.
    diff: Unified diff; only with --diff.
    """

    target: str
    dir: str
    written: bool
    manifest: str
    files: list[LaunchFile]
    removed: list[str]
    changed: bool
    fallbacks: Maybe[list[Fallback]] = UNSET
    diff: Maybe[str] = UNSET
