"""A request as it was understood, in words."""

from __future__ import annotations

from collections.abc import Sequence

from placer.market.words.areas import area_words
from placer.problem.problem import Problem
from placer.problem.requirements import ALL_REGIONS, MOST_LAUNCHED, Requirements
from placer.units import (
    counted,
    counted_range,
    format_bytes,
    format_duration,
    format_number,
    format_parameters,
    format_speed,
    format_tokens,
    format_usd,
)

MOST_PLACES = 6
"""Places that a line names one by one."""
NO_WISH = Requirements()
"""What holds where a request says nothing."""
OBJECTIVE_WORDS = {
    "throughput": "most samples/s",
    "cost": "lowest USD/h",
    "cost-per-sample": "lowest USD per sample",
    "time": "least time to finish",
    "carbon": "lowest g CO2e/h",
    "total": "fewest USD in all",
}


def asked_words(problem: Problem) -> str:
    """Echo the request, so that a misread wish is seen."""
    wish = problem.requirements
    best = OBJECTIVE_WORDS[wish.objective]
    if problem.profile.architecture is not None:
        best = best.replace("sample", "token")
    parts = [f"{_model(problem)}, {_batch(problem)}", best, *_limits(problem)]
    if wish.data_store:
        size = "data" if wish.data_bytes is None else f"{format_bytes(wish.data_bytes)} of data"
        parts.append(f"{size} in {wish.data_source if wish.copies_data else wish.data_store}")
    parts += [f"data in {data.place}" for data in wish.datasets]
    if wish.quotas:
        parts.append("quota file")
    elif wish.quota_gpus is not None:
        parts.append(f"quota {wish.quota_gpus} GPUs per region and type")
    return "; ".join(parts)


def _model(problem: Problem) -> str:
    """Name the model, and the adapters of which it is fine-tuned with the parameters trained."""
    wish, profile = problem.requirements, problem.profile
    rank = wish.lora or wish.qlora
    if rank is None or profile.architecture is None:
        return profile.name
    trained = format_parameters(profile.architecture.trainable_parameters)
    kind = "LoRA" if wish.lora else "QLoRA"
    return f"{profile.name}, {kind} rank {rank}, {trained} parameters trained"


def _batch(problem: Problem) -> str:
    """Give the samples of a step, or the range that they are chosen from, and what one is."""
    wish, shape = problem.requirements, problem.profile.architecture
    size, batch = problem.profile.sample_words, problem.batch
    critical = "" if wish.critical_batch is None else f", critical batch {wish.critical_batch:,}"
    if wish.open_batches:
        low, high = wish.open_batches[0], wish.open_batches[-1]
        return f"{low:,} to {high:,} samples a step, whichever is best{critical}, {size}"
    if shape is not None:
        assumed = f" (batch {batch:,}, assumed)" if problem.batch_assumed else ""
        return f"{batch:,} x {shape.sequence_length:,} tokens a step{assumed}"
    chosen = " (TBS, assumed)" if problem.batch_assumed else ""
    if wish.batch_range is not None:
        chosen = f" (TBS, the best of {wish.batch_range[0]:,} to {wish.batch_range[1]:,})"
    return f"{batch:,} samples a step{chosen}{critical}, {size}"


def _limits(problem: Problem) -> list[str]:
    wish, shape = problem.requirements, problem.profile.architecture
    length = None if shape is None else shape.sequence_length
    limits = []
    if wish.budget_usd_per_hour is not None:
        limits.append(f"budget {format_usd(wish.budget_usd_per_hour)}/h{_rate(wish)}")
    if wish.min_samples_per_second is not None:
        limits.append(f"at least {format_speed(wish.min_samples_per_second, length)}")
    limits += _total_limits(wish, length)
    if wish.gpus:
        limits.append(f"GPUs {', '.join(wish.gpus)}")
    if wish.places_in:
        limits.append(f"in {_places(wish.places_in, problem)}")
    if wish.places_not_in:
        limits.append(f"not in {_places(wish.places_not_in, problem)}")
    limits += [f"using {rule.spec}" for rule in wish.used]
    limits += [*_market_limits(wish), *_inner_limits(wish)]
    if wish.max_regions < ALL_REGIONS:
        limits.append(counted_range(wish.min_regions, wish.max_regions, "region"))
    elif wish.min_regions > 1:
        limits.append(f"{wish.min_regions} regions or more")
    if wish.exchange != "auto":
        limits.append(f"exchange {wish.exchange}")
    if wish.max_local_steps is not None:
        limits.append(counted_range(wish.min_local_steps or 1, wish.max_local_steps, "local step"))
    limits += [f"{rule.kind} kept in {rule.area}" for rule in wish.kept]
    central = (("aggregator", wish.aggregator_words), ("store", wish.storage))
    limits += [f"{name} {place}" for name, place in central if place]
    return [*limits, "measured devices only"] if wish.require_measured else limits


def _total_limits(wish: Requirements, length: int | None) -> list[str]:
    """Say how many samples, by when, for how much, and with which emissions."""
    limits = [] if wish.samples is None else [f"{wish.samples:,} samples"]
    if wish.tokens is not None:
        limits = [format_tokens(wish.tokens)]
    if wish.deadline_s is not None and wish.samples is not None:
        floor = f" (at least {format_speed(wish.samples / wish.work_s, length)})"
        within = f"within {format_duration(wish.deadline_s)}"
        limits.append(within + floor * (wish.deadline_s > wish.startup_s))
    if wish.budget_usd is not None:
        limits.append(f"budget {format_usd(wish.budget_usd)} in total{_rate(wish)}")
    if wish.max_carbon_g_per_hour is not None:
        limits.append(f"at most {format_number(wish.max_carbon_g_per_hour)} g CO2e/h")
    return limits


def _market_limits(wish: Requirements) -> list[str]:
    """Say on which markets, how many workers and how many spot machines of a type."""
    limits = [] if wish.market == "any" else [f"{wish.market.replace('_', '-')} only"]
    any_number = (NO_WISH.min_workers, NO_WISH.max_workers)
    if (wish.min_workers, wish.max_workers) != any_number:
        limits.append(counted_range(wish.min_workers, wish.max_workers, "worker"))
    supply = wish.other_supply
    if supply is not None and supply != MOST_LAUNCHED:
        limits.append(f"at most {counted(supply, 'spot machine')} of a type in a place")
    return limits


def _inner_limits(wish: Requirements) -> list[str]:
    """Say what is asked of islands and of the plan inside them."""
    limits = [] if wish.max_machines is None else [f"at most {wish.max_machines} machines in all"]
    least, most = wish.min_island_machines or 1, wish.max_island_machines
    if most is not None:
        limits.append(f"{counted_range(least, most, 'machine')} a worker")
    elif wish.min_island_machines is not None:
        limits.append(f"{counted(least, 'machine')} or more a worker")
    plan = (
        ("sharding", wish.sharding),
        ("tensor parallel degree", wish.tensor_parallel),
        ("checkpointing", wish.checkpointing),
        ("microbatch", wish.microbatch),
        ("precision", wish.precision),
        ("software", wish.software),
        ("transport", wish.transport),
    )
    return limits + [f"{name} {value}" for name, value in plan if value is not None]


def _places(patterns: Sequence[str], problem: Problem) -> str:
    """Name some places; all places of a country or continent by its name."""
    named = area_words(patterns, problem.catalog)
    if len(named) <= MOST_PLACES:
        return ", ".join(named)
    return f"{', '.join(named[:3])} and {len(named) - 3} more"


def _rate(wish: Requirements) -> str:
    """Say at which rate a budget in another currency was read; empty for one in USD."""
    return "" if wish.budget_rate is None else f" ({wish.budget_rate.partition(' (')[0]})"
