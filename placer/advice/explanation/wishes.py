"""The wishes of a request, one by one: what each asks for, and the same request without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from placer.advice.recommendation.nearest import AMPLE_GPUS
from placer.problem.problem import DEFAULT_QUOTA_GPUS, Problem
from placer.problem.requirements import ALL_REGIONS, Quota, Requirements
from placer.units import counted, format_duration, format_number, format_usd

AMPLE_QUOTA = (Quota(place="*", gpu="*", market="*", gpus=AMPLE_GPUS),)
PLAIN = Requirements()
"""A request without wishes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """One wish of a request.

    Notes
    -----
    ``code`` names it for programs; ``words`` say what it asks for; ``change`` says how to give it
    up on the command line; ``fields`` are those of `Requirements` that are set to ``values``
    without it; ``given`` whether the user asked for it or it holds by default.
    """

    code: str
    words: str
    change: str
    fields: tuple[str, ...]
    values: tuple[object, ...]
    given: bool = True


def without(problem: Problem, wishes: Iterable[Wish]) -> Problem:
    """The same question without some wishes."""
    changed = {
        name: value for wish in wishes for name, value in zip(wish.fields, wish.values, strict=True)
    }
    return replace(problem, requirements=replace(problem.requirements, **changed))  # type: ignore[arg-type]


def wishes_of(problem: Problem) -> tuple[Wish, ...]:
    """List the wishes of a request, those that are easiest to do without first.

    Notes
    -----
    The default quota counts as a wish that was not given. Giving up ``--in`` keeps the sites of
    owned machines open.
    """
    return tuple(_wishes(problem))


def _wishes(problem: Problem) -> Iterator[Wish]:
    wish = problem.requirements
    if wish.quotas != AMPLE_QUOTA:
        words = (
            f"quotas (at most {DEFAULT_QUOTA_GPUS} GPUs of a type in a region and market by "
            f"default)"
        )
        if wish.quotas:
            words = "the quotas of the quota file"
        yield Wish(code="quota", words=words, change=f"a quota of {AMPLE_GPUS} GPUs", fields=("quotas",), values=(AMPLE_QUOTA,),
                   given=bool(wish.quotas))  # fmt: skip
    if wish.used:
        said = ", ".join(f"{rule.count} x {rule.device} in {rule.place}" for rule in wish.used)
        yield _plain("use", f"the use of {said}", "no machines that must be used", "used")
    if (
        wish.objective == "carbon"
    ):  # machines without known emissions are left out, so it asks for more than an order
        words = "the objective carbon (only machines and grids of known emissions)"
        yield Wish(
            code="objective",
            words=words,
            change="another --objective",
            fields=("objective",),
            values=("throughput",),
            given=False,
        )
    yield from _training(wish)
    yield from _exchange(wish)
    yield from _data(wish)
    yield from _counts(wish)
    yield from _machines(wish)
    yield from _limits(wish)


def _training(wish: Requirements) -> Iterator[Wish]:
    """Batch, compression and how the exchange is done."""
    if wish.target_batch_size is not None:
        yield _plain(
            "tbs", f"{wish.target_batch_size:,} samples a step", "no --tbs", "target_batch_size"
        )
    if wish.max_local_steps is not None:
        words = f"{wish.min_local_steps} to {wish.max_local_steps} local steps"
        yield _plain("local-steps", words, "no --local-steps", "min_local_steps", "max_local_steps")
    if wish.overlap:
        yield _plain("overlap", "an exchange beside the next step", "no --overlap", "overlap")


def _exchange(wish: Requirements) -> Iterator[Wish]:
    """Strategy and places of the exchange."""
    if wish.storage is not None:
        yield _plain("storage", f"a store in {wish.storage}", "no --storage", "storage")
    if wish.aggregator is not None:
        yield _plain(
            "aggregator",
            f"an aggregator in {wish.aggregator_words}",
            "no --aggregator",
            "aggregator",
            "function",
        )
    if wish.exchange != "auto":
        yield _plain(
            "exchange",
            f"the exchange {wish.exchange}",
            "--exchange auto",
            "exchange",
            "aggregator",
            "function",
            "storage",
        )


def _data(wish: Requirements) -> Iterator[Wish]:
    """Where data lies and what must not leave where."""
    if wish.kept:
        rules = ", ".join(f"{rule.kind} that must not leave {rule.area}" for rule in wish.kept)
        yield _plain("keep", rules, "no --keep", "kept")
    if wish.datasets:
        said = ", ".join(
            f"data that {'may move from' if d.may_move else 'stays in'} {d.place} ({d.samples:,} "
            f"samples)"
            for d in wish.datasets
        )
        yield _plain("data", said, "no --data", "datasets", "passes")
    if wish.data_store is not None:
        yield _plain("data", f"data read from {wish.data_store}", "no --data", "data_store")


def _counts(wish: Requirements) -> Iterator[Wish]:
    """Workers and regions."""
    if wish.max_regions < ALL_REGIONS:
        yield _plain(
            "most-regions",
            f"at most {counted(wish.max_regions, 'region')}",
            "any number of regions",
            "max_regions",
        )
    if wish.min_regions > 1:
        yield _plain(
            "fewest-regions",
            f"at least {wish.min_regions} regions",
            "any number of regions",
            "min_regions",
        )
    if wish.max_workers < PLAIN.max_workers:
        yield _plain(
            "most-workers",
            f"at most {counted(wish.max_workers, 'worker')}",
            f"--workers {wish.min_workers}..64",
            "max_workers",
        )
    if wish.min_workers > 1:
        yield _plain(
            "fewest-workers",
            f"at least {wish.min_workers} workers",
            f"--workers 1..{wish.max_workers}",
            "min_workers",
        )


def _machines(wish: Requirements) -> Iterator[Wish]:
    """Which offers are admitted."""
    if wish.oldest_price is not None:
        yield _plain(
            "price-age",
            f"prices of {wish.oldest_price} or newer",
            "no --max-price-age",
            "oldest_price",
        )
    if wish.require_measured:
        yield _plain(
            "measured", "only measured devices", "no --require-measured", "require_measured"
        )
    if wish.places_not_in:
        yield _plain(
            "not-in",
            f"no machines in {', '.join(wish.places_not_in)}",
            "no --not-in",
            "places_not_in",
        )
    if wish.market != "any":
        yield _plain(
            "market", f"only {wish.market.replace('_', '-')} machines", "--market any", "market"
        )
    if wish.places_in:
        words = f"only machines in {', '.join(wish.places_in)}"
        yield Wish(
            code="in",
            words=words,
            change="no --in",
            fields=("places_in",),
            values=(("*", *wish.places_in),),
        )
    if wish.gpus:
        yield _plain("gpu", f"only {', '.join(wish.gpus)}", "no --gpu", "gpus")


def _limits(wish: Requirements) -> Iterator[Wish]:
    """Money, speed, time and emissions."""
    if wish.max_carbon_g_per_hour is not None:
        words = f"at most {format_number(wish.max_carbon_g_per_hour)} g CO2e/h"
        yield _plain("carbon", words, "no --max-carbon", "max_carbon_g_per_hour")
    if wish.most_usd_per_million_samples is not None:
        words = f"at most {format_usd(wish.most_usd_per_million_samples)} per million samples"
        yield _plain("per-sample", words, "no limit per sample", "most_usd_per_million_samples")
    if wish.deadline_s is not None and wish.samples is not None:
        words = f"{wish.samples:,} samples within {format_duration(wish.deadline_s)}"
        yield _plain("deadline", words, "no --deadline", "deadline_s")
    if wish.budget_usd is not None and wish.samples is not None:
        words = f"{format_usd(wish.budget_usd)} in total for {wish.samples:,} samples"
        yield _plain("total-budget", words, "no --budget in total", "budget_usd")
    if wish.min_samples_per_second is not None:
        words = f"at least {format_number(wish.min_samples_per_second)} samples/s"
        yield _plain("throughput", words, "no --min-throughput", "min_samples_per_second")
    if wish.budget_usd_per_hour is not None:
        yield _plain(
            "budget",
            f"a budget of {format_usd(wish.budget_usd_per_hour)}/h",
            "no --budget",
            "budget_usd_per_hour",
        )


def _plain(code: str, words: str, change: str, *fields: str) -> Wish:
    """A wish that falls back to what holds without a word."""
    return Wish(
        code=code,
        words=words,
        change=change,
        fields=fields,
        values=tuple(getattr(PLAIN, name) for name in fields),
    )
