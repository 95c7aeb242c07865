"""The verbs about saved answers: what changes between two, the bill and launch files of one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from placer.errors import PlacerError, unknown
from placer.interface.verb import verb
from placer.interface.words import Document, Texts

if TYPE_CHECKING:
    from placer.launch.export.export_plan import ExportPlan


class Found(Struct, frozen=True, kw_only=True):
    """What was found, as its document."""

    document: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the document."""
        return dict(self.document)


class Difference(Found, frozen=True):
    """What changes between two results (``placer.diff/v1``), and the conditions that hold."""

    @property
    def failed(self) -> list[str]:
        """Return the changes that are not accepted."""
        return list(self.document["failed"])


class Billed(Found, frozen=True):
    """What was predicted beside what was charged (``placer.bill/v1``)."""


class LaunchFiles(Struct, frozen=True, kw_only=True):
    """Launch files of a plan as texts by name; ``apart`` has those of each fallback, by its number
    from 1, that the files of the plan do not try by themselves.
    """

    target: str
    plan: ExportPlan
    files: Mapping[str, str]
    apart: Mapping[int, Mapping[str, str]]

    def folders(self, folder: str = "") -> dict[str, Mapping[str, str]]:
        """Return the files by the folder that they are for."""
        beside = {_beside(folder, number): files for number, files in self.apart.items()}
        return {folder: self.files, **beside}

    def to_dict(self, folder: str = "", *, texts: bool = True) -> dict[str, Any]:
        """Return the ``placer.export/v1`` document; ``texts``: with what the files hold."""
        listed = {
            f"{at}/{name}" if at != folder else name: text
            for at, files in self.folders(folder).items()
            for name, text in sorted(files.items())
            if texts or at == folder
        }
        fallbacks = [
            {
                "manifest": other.manifest.digest,
                "dir": _beside(folder, number) if number in self.apart else folder,
                "tried_by_itself": number not in self.apart,
            }
            for number, other in enumerate(self.plan.fallbacks, start=1)
        ]
        return {
            "schema": "placer.export/v1",
            "target": self.target,
            "dir": folder,
            "written": False,
            "manifest": self.plan.manifest.digest,
            "files": [
                {"name": name, "bytes": len(text.encode()), **({"text": text} if texts else {})}
                for name, text in listed.items()
            ],
            "removed": [],
            **({"fallbacks": fallbacks} if fallbacks else {}),
            "changed": True,
        }


def _beside(folder: str, number: int) -> str:
    return f"{folder.rstrip('/')}-fallback-{number}".lstrip("-")


@verb("diff", searches=0)
def diff(
    before: Document,
    after: Document,
    *,
    fail_on: Texts = (),
    names: tuple[str, str] = ("before", "after"),
) -> Difference:
    """Show what changes between two results: machines, cost a month, speed, emissions, wishes.

    Raise `PlacerError` if one of them is no result, or a condition compares what neither has.

    before: Document of a result, as -o or --json of 'placer recommend' writes it.
    after: The other one.
    fail_on (CONDITION): A change that is not accepted: cost>10%, speed<-5%, total>20; those that
        hold are listed as failed. Figures: cost, machines, egress (USD/h); total (USD), hours of
        the whole run; speed (samples/s), price (USD per million samples), step (s), carbon (g/h).
    names (Python): Names of the two, for messages.

    >>> import placer
    >>> words = {"catalog": "erben-2023", "budget": "5/h"}
    >>> before = placer.recommend("roberta-xlm", **words)
    >>> after = placer.recommend("roberta-xlm", **(words | {"budget": "2/h"}))
    >>> placer.diff(before, after, fail_on="speed<-5%").failed
    ['speed<-5%']
    """
    from placer.documents.difference import difference_document, parse_condition
    from placer.interface.worlds import texts

    conditions = [parse_condition(text) for text in texts(fail_on)]
    one, other = (_document(given) for given in (before, after))
    return Difference(document=difference_document(one, other, names, conditions))


@verb("export", searches=0)
def export(
    manifest: Document,
    target: str,
    *,
    train: str = "train.py",
    image: str | None = None,
    fallbacks: Sequence[Document] = (),
    edited: bool = False,
    names: Sequence[str] = (),
) -> LaunchFiles:
    """Return launch files of a plan as texts: torchrun, SkyPilot, Kubernetes and others.

    Raise `PlacerError` if the plan is no manifest, or the target cannot run it.

    manifest: Launch manifest, or the document of a result that -o of 'placer recommend' wrote.
    target (TARGET, --to): What the files are for, such as torchrun, skypilot, jobset or slurm.
    train (FILE|MODULE:FUNCTION): Training script, as the machines find it; or a function, as
        'placer run' takes it, which the machines start.
    image (IMAGE): Container image, where the target runs containers; default: PyTorch's own.
    fallbacks (MANIFEST, --fallback): Plan to use if the machines are not available; repeat it in
        order.
    edited: Take a manifest that was edited by hand.
    names (Python): Names of the manifest and of the fallbacks, for messages.

    >>> import placer
    >>> result = placer.recommend("roberta-xlm", catalog="erben-2023", budget="5/h")
    >>> sorted(placer.export(result.to_manifest(), "torchrun").files)
    ['README.md', 'manifest.json', 'meet.py', 'workers-0.sh']
    """
    from placer.launch.export import export as exported
    from placer.launch.export import target_named, tried_together
    from placer.records import replace

    target_named(target)  # an unknown one is refused before anything is read
    words = {"train": train, **({} if image is None else {"image": image})}
    called = names or ("manifest", *(f"fallback {n}" for n in range(1, len(fallbacks) + 1)))
    plan, *others = (
        _plan(document, name, edited, words)
        for document, name in zip((manifest, *fallbacks), called, strict=True)
    )
    plan = replace(plan, fallbacks=tuple(others))
    together = tried_together(plan, target)
    return LaunchFiles(
        target=target,
        plan=plan,
        files=exported(plan, target),
        apart={n: exported(each, target) for n, each in enumerate(others, 1) if n not in together},
    )


@verb("bill", searches=0)
def bill(
    result: Document,
    charges: str | os.PathLike[str],
    *,
    hours: float | None = None,
    period: str | None = None,
    cost: str = "billed",
    tag: Texts = (),
    name: str = "result",
) -> Billed:
    """Compare what an answer predicted with what a bill charges, by component.

    Raise `PlacerError` if the answer has no placement, the bill is none in FOCUS, or nothing says
    how long the placement ran.

    result: Document of a result, as -o of 'placer recommend' writes it, or of an estimate.
    charges: CSV file with the columns of FOCUS 1.0 or later.
    hours (H): Time that the placement ran; default: the hours of its machines on the bill.
    period (FROM/TO): Only charges from a day or time until another, in UTC: 2026-10-03/2026-10-05.
    cost ({billed, effective, list, contracted}): Which cost counts: as invoiced, with commitments
        spread, at list or at contract prices.
    tag (KEY=VALUE): Only charges with this tag.
    name (Python): Name of the result, for messages.

    >>> import placer
    >>> groups = "aws/us-west-2=7xCPU-2:on-demand,aws/eu-west-2=1xCPU-2:on-demand"
    >>> words = {"catalog": "phalak-2023", "exchange": "central", "aggregator": "aws/us-west-2"}
    >>> plan = placer.estimate("niser", workers=groups, **words)
    >>> billed = placer.bill(plan, "examples/focus.csv").to_dict()
    >>> [round(billed[name], 2) for name in ("hours", "predicted_usd", "charged_usd")]
    [5.5, 6.44, 6.44]
    """
    from placer.interface.options import text_of
    from placer.interface.worlds import texts
    from placer.market.sources.charges import read_charges
    from placer.market.sources.reading.mapping import COSTS
    from placer.validation.bill import bill_document, parse_scope

    if cost not in COSTS:
        raise unknown("cost", str(cost), COSTS)
    if hours is not None and not 0 < hours < float("inf"):
        raise PlacerError(f"hours {hours}", "give how long it ran, such as 24")
    scope = parse_scope(period, texts(tag))
    path = text_of("charges", charges)
    document = bill_document(
        _document(result),
        read_charges(path, cost),
        (name, Path(path).name),
        cost=cost,
        hours=hours,
        scope=scope,
    )
    return Billed(document=document)


def _document(given: Any) -> Any:
    """Return the document of an answer; a document stays as it is."""
    return given.to_dict() if hasattr(given, "to_dict") else given


def _plan(document: Document, name: str, allow_edits: bool, words: dict[str, Any]) -> ExportPlan:
    """Read a manifest, or make it from a result."""
    from placer.documents.manifest import edited, read_manifest
    from placer.documents.schemas import RESULT_SCHEMA
    from placer.documents.validate import manifest_of
    from placer.launch.export.export_plan import ExportPlan

    if isinstance(document, dict) and document.get("schema") == RESULT_SCHEMA:
        document = manifest_of(document, name)
    try:
        manifest = read_manifest(document, name, allow_edits=allow_edits)
    except PlacerError as error:
        if "digest differs" in error.message:
            raise PlacerError(
                error.message, "add --edited to use it as it is, or write it again with --manifest"
            ) from None
        raise
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    return ExportPlan(manifest=manifest, text=text, edited=edited(document), **words)
