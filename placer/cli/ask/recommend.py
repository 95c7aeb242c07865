"""``placer recommend``: the main job."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from placer.cli.command import VERBOSE, Json, Saved, as_command
from placer.cli.output import (
    LABELS,
    check_targets,
    exit_code,
    print_json,
    print_labelled,
    screen_width,
    styled,
    tell,
    write_json,
)
from placer.cli.screen.formats import STDOUT, whole_tables
from placer.cli.screen.progress import progress
from placer.cli.screen.show import show
from placer.errors import PlacerError
from placer.interface.advisor import recommend
from placer.report.draw.wrapping import labelled, wrapped

EXAMPLE = """\b
Examples:
  placer recommend --model roberta-xlm --budget 5/h
  placer recommend --model resnet50 --min-throughput 2000/s --in 'gcp/*,aws/*' --market spot
  placer recommend --model roberta-xlm --budget 5/h --manifest plan.json
  placer recommend -f axolotl.yaml --budget 50/h
  placer recommend --model roberta-xlm --budget 5/h --certificate -o result.json
  placer recommend --model roberta-xlm --budget 50/h --regions 2.. --solver local_search
  placer recommend --model roberta-xlm --budget 5/h --catalog erben-2023 --verify cpsat
"""

LIMITS = {
    "time_limit": "the search was stopped",
    "memory_limit": "the search reached its memory limit",
}
"""Words of the statuses of a search that a limit or the user ended."""
MOST_LINES = 18
"""Lines of the default answer at 100 columns, without the next step."""
FULL_WIDTH = 100
LEFT_OUT = ("inside", "regions")
"""Lines that are left to ``-v``, the first one first, where there would be more."""


def _take_words(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    """Take words from a configuration where no flag gives others."""
    if path is None or ctx.resilient_parsing:
        return
    from placer.interface.question_file import read_question

    about, words = read_question(path)
    flags = {p.name: p.opts[0] for p in ctx.command.params}
    said = " ".join(f"{flags[name]} {shlex.quote(word)}" for name, word in words.items())
    tell(f"read {path} as {about}: {said or 'no word of it is one of a question'}")
    ctx.default_map = {**(ctx.default_map or {}), **words}


question_option = click.option(
    *("-f", "--file", "question"),
    expose_value=False,
    is_eager=True,
    callback=_take_words,
    metavar="FILE",
    help="A file of axolotl, DeepSpeed, accelerate, torchtitan, LLaMA-Factory, TRL, SkyPilot or "
    "dstack that asks.",
)


@question_option
@as_command("recommend", EXAMPLE, of=recommend, without=["alternatives"])
def command(
    ctx: click.Context,
    *,
    model: str,
    output: Saved,
    certificate: bool = False,
    manifest: str | None = None,
    as_json: Json,
    **words: Any,
) -> None:
    """Find, prove and explain the best placement for a model.

    certificate: Show what was proved about each strategy; with -o keep the whole market, to check
        it again.
    manifest (FILE): Write the launch manifest as JSON.
    """
    from placer.interface.options import memory_bytes
    from placer.solving.allowance import bounded_address_space

    check_targets(output, manifest)
    whole = ctx.meta.get(VERBOSE, False) or whole_tables()
    short = not (whole or certificate or output or manifest or as_json)
    limit = words["memory_limit"]
    most = None if limit is None else memory_bytes(limit)
    with progress("searching", words, keeps=True) as heard, bounded_address_space(most):
        result = recommend(
            model,
            certificate=certificate or output is not None,
            alternatives="short" if short else True,
            **heard,
            **words,
        )
    if output:
        write_json(output, result.to_saved(whole=certificate))
    fallbacks: list[str] = []
    if manifest and result.placement is not None:
        write_json(manifest, result.to_manifest())
        for number, document in enumerate(result.fallback_manifests(), start=1):
            fallbacks.append(_fallback_file(manifest, number))
            write_json(fallbacks[-1], document)
    if as_json:
        print_json(result.to_dict())
    else:
        _print(result, output, manifest, certificate, whole=whole)
        for path in fallbacks:
            tell(f"wrote the manifest of a fallback to {path}")
    ctx.exit(exit_code(result))


def _fallback_file(manifest: str, number: int) -> str:
    """Return where the manifest of a fallback goes: ``plan.json`` has ``plan-fallback-1.json``."""
    from pathlib import Path

    path = Path(manifest)
    return str(path.with_name(f"{path.stem}-fallback-{number}{path.suffix}"))


def _print(
    result: Any, output: str | None, manifest: str | None, certificate: bool, *, whole: bool
) -> None:
    """Print the result on stdout; warnings, errors and next commands on stderr."""
    if result.placement is None:
        print_no_placement(result, whole=whole)
        if output:
            click.echo(f"wrote result to {output}", err=True)
        if manifest:
            click.echo("no manifest was written: there is no placement", err=True)
        return
    if whole or certificate:
        show(result.to_dict(), whole=True)
    else:
        _print_default(result)
    for path, what in ((output, "result"), (manifest, "launch plan")):
        if path and path != STDOUT:
            click.echo(f"wrote {what} to {path}", err=True)
    if not (output or manifest):
        words = "-o answer.json: to explain, report, diff | --manifest plan.json: to launch"
        if not (whole or certificate):
            words = f"-v: everything | {words}"
        print_labelled([("next", words)], stderr=True)


def _print_default(result: Any) -> None:
    """Print about eighteen lines at 100 columns, more in a narrow terminal."""
    from placer.cli.report import answer
    from placer.cli.report.placements import choice_lines

    out = sys.stdout
    width = screen_width(out)
    where, figures = answer.title(result, width)
    *lines, last = wrapped(where, width)
    for line in lines:
        click.echo(styled(line, "bold green", out))
    beside = len(last) + len(figures) + 3 <= width
    click.echo(styled(last, "bold green", out) + f"   {figures}" * beside)
    if not beside:
        click.echo(figures)
    rows = [*choice_lines(result, width, LABELS)]
    for label, rest in rows:
        click.echo(styled(label, "cyan", out) + rest)
    facts, warnings = [*answer.answer_lines(result)], answer.warning_lines(result)
    room = MOST_LINES - len(lines) - len(rows) - (1 if beside else 2)
    print_labelled(_fitting(facts, warnings, room))
    print_labelled(warnings, stderr=True, style="yellow")


def _fitting(
    facts: list[tuple[str, str]], warnings: list[tuple[str, str]], room: int
) -> list[tuple[str, str]]:
    """Leave out what ``-v`` says as well, as far as there is no room for it."""
    for label in LEFT_OUT:
        if len(labelled([*facts, *warnings], FULL_WIDTH, LABELS)) > room:
            facts = [fact for fact in facts if fact[0] != label]
    return facts


def print_no_placement(result: Any, *, whole: bool = True) -> None:
    """Say why there is no placement, and what would fit."""
    from placer.cli.report.answer import change_words
    from placer.cli.report.request import asked_words
    from placer.solving.cross_check import verification_words

    if whole:
        show(result.to_dict())
    else:
        print_labelled([("model", asked_words(result.problem))])
    error = _why_none(result)
    _tell(f"error: {error.message}")
    if not whole:
        for option in result.nearest:
            _tell(change_words(option, result.problem), "  ")
    _tell(f"tip: {error.hint}", "  ")
    if result.verification is not None:
        _tell(f"verified: {verification_words(result.verification)}", "  ")
    for warning in result.warnings:
        if warning.code in ("disagreement", "unverified", *DEFAULTS) and not whole:
            _tell(f"warning: {warning.message}")


def _why_none(result: Any) -> PlacerError:
    status = str(result.status)
    if status in LIMITS:
        return PlacerError(
            f"{LIMITS[status]} before any placement was found",
            f"raise --{status.replace('_', '-')}, or narrow --gpu and --in",
        )
    if status == "unknown":
        remedy = "relax a limit"  # what exact leaves open stays open
        if result.proof_wish != "full":
            remedy = "ask again with --proof full"
        elif result.solver != "exact":
            remedy = "ask again with --solver exact"
        return PlacerError(
            f"the solver {result.solver} found no placement; that is no proof that there is none",
            remedy,
        )
    works = ", or ".join(option.note for option in result.nearest)
    return PlacerError(
        f"no placement satisfies the request (proved in {result.seconds:.1f} s)",
        f"a change that works: {works}; 'placer explain' says what binds"
        if works
        else "'placer explain' with the same words says which wishes contradict each other",
    )


DEFAULTS = ("supply", "default-workers", "default-island", "default-batch")
"""Warnings of limits that nobody asked for, which the fastest placement reaches."""


def _tell(text: str, indent: str = "") -> None:
    """Print a sentence on stderr, its further lines indented."""
    width = screen_width(sys.stderr) - len(indent)
    for line in wrapped(text, width, "  "):
        click.echo(indent + line, err=True)
