"""Placements in words, what is proved of them, and the choices beside an answer."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import to_builtins

from placer.cost_model.estimate import pool_of
from placer.cost_model.outlook.totals import speed_between, totals_of, unmeasured
from placer.documents.result_parts import placement_document
from placer.market.books.defended_figures import PLANNED
from placer.market.catalog import VmOffer
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.report.blocks import table, without_empty_columns
from placer.report.draw.terminal import GAP, table_lines
from placer.report.figures import Document, devices_words, headline, tokens_per_sample
from placer.report.kinds.shared.placement import plan_words
from placer.solving.result import ConfidentPlan, Option, Result
from placer.units import (
    counted,
    format_duration,
    format_plain,
    format_seconds,
    format_speed,
    format_usd,
    is_wide,
    speed_unit,
)
from placer.workload.constants import peer_of
from placer.workload.island import TRANSPORTS, Island

BRIEF_GROUPS = 3
"""More groups are counted, not listed, inside a sentence."""


def machines_words(placement: Placement) -> str:
    """Name the machines alone, such as ``19 x (4 x H100)``; of many groups their number."""
    if len(placement.groups) > BRIEF_GROUPS:
        return f"{placement.workers} workers of {len(placement.groups)} kinds"
    return " + ".join(devices_words(to_builtins(group)) for group in placement.groups)


def brief(placement: Placement, problem: Problem, *, types: bool = False) -> str:
    """Return the headline, or with many groups only how many machines where."""
    if len(placement.groups) <= BRIEF_GROUPS:
        return headline(placement_document(placement, problem), types=types)
    places = placement.places
    where = places[0] if len(places) == 1 else f"{len(places)} regions"
    return f"{machines_words(placement)} in {where}"


def market_words(placement: Placement) -> str:
    """Name the markets whose machines may be taken away."""
    kinds = sorted({group.market for group in placement.groups} - {"on_demand"}, reverse=True)
    return " and ".join(kinds) or "spot"


def rented(placement: Placement, problem: Problem) -> Iterator[VmOffer]:
    """Yield the offers of the workers of a placement."""
    for group in placement.groups:
        row = group.place, group.instance_type, group.gpu, group.gpu_count, group.market
        offer = problem.catalog.offer(*row)
        if offer is not None:
            yield offer


def inner_words(placement: Placement, problem: Problem) -> str:
    """Describe the plan inside the workers, with the memory that it takes of each GPU; empty
    without one, and where they have several.
    """
    kinds = {(group.worker_name, group.inner): group for group in reversed(placement.groups)}
    planned = [group for (_, inner), group in kinds.items() if inner is not None]
    if len(planned) != 1:
        return ""
    (group,) = planned
    assert group.inner is not None
    offer = pool_of(group, problem).offer
    built = problem.island(offer, group.machines, group.inner, placement.workers)
    text = plan_words(to_builtins(group.inner))
    if isinstance(built, Island):
        text += f"; {built.memory.of_room(problem.catalog.gpu(group.gpu).memory_gib)}"
    return f"{group.worker_name}: {text}" if len(kinds) > 1 else text


def software_words(placement: Placement, problem: Problem) -> str:
    """Name the software that averages inside a zone."""
    peers = [peer_of(pool_of(group, problem).host) for group in placement.groups]
    names = {peer.transport for peer in peers if peer is not None} or {"hivemind"}
    return " and ".join(sorted(TRANSPORTS[name].title for name in names))


BASES = {"list": "quoted", "published": "published", "owned": "own", "estimated": "estimated"}
"""How a price is known, by its basis in the book."""


def price_basis(offer: VmOffer) -> str:
    """Say how a price is known, and of when it is."""
    if offer.source.startswith(PLANNED):
        return f"planned from {offer.as_of[:7]}"
    known = BASES.get(offer.price_basis, offer.price_basis)
    return known if offer.price_basis == "owned" else f"{known} {offer.as_of[:7]}"


def price_bases(placement: Placement, problem: Problem) -> str:
    """Say how the prices of the machines of a placement are known, and of when they are."""
    return " and ".join(dict.fromkeys(map(price_basis, rented(placement, problem))))


def speed_basis(provenance: tuple[str, ...]) -> str:
    """Say how the speeds are known that some figures rest on."""
    return " and ".join(dict.fromkeys(unmeasured(provenance).values())) or "measured"


def proof_words(result: Result) -> str:
    """Say in one line what is proved; without its time and basis where a line says the doubt."""
    if result.confidence is not None:
        return _confident_words(result, result.confidence)
    asked, gap = result.problem, result.gap
    if result.older is not None:  # its bound is on prices of every age
        asked = replace(asked, requirements=replace(asked.requirements, oldest_price=None))
    over = _looked_over(result, asked)
    took = "" if result.status.stopped else f" ({format_seconds(result.seconds)})"
    behind = f"; speeds {speed_basis(result.estimate.provenance if result.estimate else ())}"
    if result.status == "optimal" and gap is not None:
        text = f"optimal {over}" if gap == 0 else f"optimal within {_gap(gap)} {over}"
        if any(warning.code == "extrapolated" for warning in result.warnings):
            behind += "; averaging times beyond what was measured"
    elif result.older is not None and gap is not None:
        text = f"at most {_gap(gap)} from the best {over}, which is {result.older.note}"
    elif result.status == "feasible":
        staged = any(note.code == "staged" for note in result.notes)
        if gap is None:
            tried, proves = f"best of {result.candidates:,} that were tried", "--solver exact"
            if result.proof_wish != "full":
                tried, proves = "a draft", "--proof full"
            return f"not proved: {tried}{took}; {proves} proves it or finds a better one"
        if result.proof_wish == "quick":
            over = f"at most {_gap(gap)} from the best {over}"
            return f"not proved: a quick answer, {over}{took}; --proof full proves it"
        text = f"at most {_gap(gap)} from the best {over}"
        text = f"{text}, with the data in any store" if staged else f"not proved: {text}"
    else:
        limit = "memory limit" if result.status == "memory_limit" else "time limit"
        limit = "interruption" if result.interrupted else limit
        open_ = "gap not known" if gap is None else f"gap {_gap(gap)}"
        text = f"not proved: best until the {limit}, {open_} {over}"
    return text if doubt_words(result) else f"{text}{took}{behind}"


def _looked_over(result: Result, asked: Problem) -> str:
    """Say among how many offers, and workers where their most is a default, the answer is best."""
    over = f"over {counted(asked.pools.offer_count, 'offer')}"
    if any(warning.code == "default-workers" for warning in result.warnings):
        over += f" and at most {counted(asked.requirements.max_workers, 'worker')}"
    return over


def _confident_words(result: Result, plan: ConfidentPlan) -> str:
    early = "stopped early: " if result.status.stopped else ""
    best = f"{early}best of {counted(plan.ladders_tried, 'plan')}"
    if plan.least_usd is None:
        return best
    return f"{best}; proved: no finished run costs less than {format_usd(plan.least_usd)}"


def standing_words(result: Result) -> str:
    """Say in one word whether the answer stands, and why it may not: it is open where a speed or a
    price that decides it was not read, likely where a price moves by itself.
    """
    placement, got = result.placement, result.estimate
    assert placement is not None
    assert got is not None
    offers = [*rented(placement, result.problem)]
    known = doubt_words(result)
    if not known and unmeasured(got.provenance):
        known = f"speed {speed_basis(got.provenance)}"
    why = [known] if result.proved else ["not proved", known]
    if any(offer.price_basis == "estimated" for offer in offers):
        why.append(f"the price is {price_bases(placement, result.problem)}")
    if any(why):
        return f"open: {'; '.join(filter(None, why))}"
    if any(offer.moves for offer in offers):
        return "likely: prices that were read, but move"
    return "firm: prices and speeds were read, and none moves"


def doubt_words(result: Result) -> str:
    """Say in few words what may change a proved ranking; empty where nothing that is known does."""
    got = result.estimate
    if got is None or result.confidence is not None or not result.proved:
        return ""
    speed, unknown = got.effective_samples_per_second, unmeasured(got.provenance)
    if not is_wide(speed.low, speed.high):
        rival = _rival(result, speed.value) if result.objective.by_speed else None
        return "" if rival is None else f"{machines_words(rival.placement)} may be faster"
    if not unknown:
        return "the speed of its links is not known well"
    if result.objective.by_speed:
        gpus = unknown if len(unknown) == 1 else {name.partition(":")[0]: "" for name in unknown}
        return f"the speed of {', '.join(gpus)} is {speed_basis(got.provenance)}"
    floor = result.problem.requirements.floor_samples_per_second or 0.0
    short = "the floor may be missed" if speed.low < floor else "the price of a sample may vary"
    return f"speed {speed_basis(got.provenance)}: {short}"


def _rival(result: Result, speed: float) -> Option | None:
    """Return the best placement that may be faster than a speed by its interval."""
    for option in result.options:
        other = option.estimate.effective_samples_per_second
        wide = is_wide(other.low, other.high)
        if option.placement != result.placement and other.high > speed and wide:
            return option
    return None


def _gap(gap: float) -> str:
    return f"{format_plain(100 * gap, 2)} %" if gap < 0.1 else f"{100 * gap:.0f} %"


def confidence_lines(document: Document) -> Iterator[tuple[str, str]]:
    """Yield at most three lines: what the plan reaches, what it costs, and its first fallback."""
    from placer.report.kinds.result import plan_facts  # few questions need it

    plan = document["confidence"]
    yield from ((label, words) for label, words, _ in plan_facts(plan))
    if plan["ranks"][1:]:
        rank, more = plan["ranks"][1], len(plan["ranks"]) - 2
        when = ", if time runs out" if rank["certain"] else ""
        others = f" ({more} more: -v)" if more else ""
        estimate = rank["estimate"]
        speed = format_speed(
            estimate["effective_samples_per_second"]["value"], tokens_per_sample(estimate)
        )
        usd = format_usd(estimate["usd_per_hour"]["total"])
        yield "fallback", f"{headline(rank['placement'])}{when}: {speed} for {usd}/h{others}"


CENTS_BELOW = 100
"""USD from which cents are left out of a total."""


def choice_lines(result: Result, width: int, column: int) -> Iterator[tuple[str, str]]:
    """Yield lines of a width, as label and rest: the choices beside an answer, or own machines and
    rented ones, under a head. Texts begin at a column; machines are wrapped where it is narrow.
    """
    if result.estimate is None:
        return
    rows = [_row(label, option, result.problem) for label, option in _named(result)]
    before = max([column - GAP, *(len(label) for label, *_ in rows)])
    unit = speed_unit(result.estimate.tokens_per_sample)
    listed = table(
        "",
        ("", "machines", "USD/h", unit, "total", "price; speed"),
        [[label.ljust(before), *cells] for label, *cells in rows],
        numbers=("USD/h", unit, "total"),
        narrowed=("machines",),
    )
    whole = without_empty_columns(listed)
    for ((line, _),) in () if whole is None else table_lines(whole, width):
        yield line[:before], line[before:]


def _named(result: Result) -> Iterator[tuple[str, Option]]:
    """Yield at most four choices with their labels; own machines beside rented ones are all
    compared, the answer among them.
    """
    own = result.own_machines
    if own is not None:
        yield from ((option.label, option) for option in own.rows)
        return
    rows = [option for option in result.options if _devices(option) != _devices(result)]
    on_demand = [o for o in rows if all(g.market == "on_demand" for g in o.placement.groups)]
    named = [(option.label, option) for option in (result.older, result.bold) if option is not None]
    named += [("steady", option) for option in on_demand[:1]]
    named += [("next", option) for option in rows if option not in on_demand[:1]][:1]
    shown = {result.placement and result.placement.canonical()}
    for label, option in named:
        if option.placement.canonical() not in shown:
            shown.add(option.placement.canonical())
            yield label, option


def _devices(shown: Option | Result) -> set[tuple[str, str]]:
    """Return what is rented, whatever the number of devices of a machine."""
    groups = () if shown.placement is None else shown.placement.groups
    return {(group.gpu, group.market) for group in groups}


def _row(label: str, option: Option, problem: Problem) -> list[str]:
    """Return label, machines, price, speed, total and how price and speed are known."""
    got, total = option.estimate, ""
    if problem.requirements.samples is not None:
        totals = totals_of(got, problem.requirements)
        usd = totals.usd.value
        money = format_usd(usd) if usd < CENTS_BELOW else f"${usd:,.0f}"
        total = f"{format_duration(totals.seconds.value)}, {money}"
    bases = [price_basis(offer).partition(" ")[0] for offer in rented(option.placement, problem)]
    prices = " and ".join(dict.fromkeys(bases))
    return [
        label,
        brief(option.placement, problem),
        format_usd(got.usd_per_hour.total),
        speed_between(got),
        total,
        f"{'book' if label == 'bold' else prices}; {speed_basis(got.provenance)}",
    ]
