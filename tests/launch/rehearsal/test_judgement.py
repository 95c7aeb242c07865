"""Whether a rehearsal confirms a plan, by records of rounds as workers write them: each planted
fault is named.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from rehearsed import EU, OREGON, STORES, US, by_hand

from placer.launch.rehearsal.judgement import confirmed, document_of, lines_of, verdict
from placer.launch.rehearsal.rehearsal import Rehearsal, exchange_seconds
from placer.launch.rehearsal.small_plan import SmallPlan, small_plan
from placer.records import replace

WAYS = ((EU, US), (US, EU))


def small(**words: Any) -> SmallPlan:
    """A small plan of two regions; its exchange is priced at 1.7 s, two round trips included."""
    return small_plan(*by_hand(**words))


def step(rank: int, number: int, wire_s: float, **words: Any) -> dict[str, Any]:
    """A step as a worker logs it, with 10 ms of calculation and of work beside the messages."""
    whole = {"step_s": wire_s + 0.02, "calculation_s": 0.01, "wire_s": wire_s, "samples": 64}
    about = {"kind": "step", "step": number, "rank": rank, "exchanged": True}
    return {**about, **whole, "exchange_s": {}, "requests_by_bucket": {}, **words}


def rehearsed(
    plan: SmallPlan,
    seconds: Sequence[float],
    *,
    sent: Mapping[tuple[str, str], float] | None = None,
    rates: Mapping[tuple[str, str], float] | None = None,
    priced_again: tuple[float, float] = (1.0, 1.0),
) -> Rehearsal:
    """A rehearsal whose exchange took some seconds in each round; the first does not count."""
    told = plan.plan
    return Rehearsal(
        small=plan,
        plan=told,
        records=[
            step(rank, number, wire_s)
            for number, wire_s in enumerate((9.0, *seconds))
            for rank in range(told.ranks)
        ],
        sent=sent or plan.sent_bytes(1 + len(seconds)),
        rates=rates or {},
        priced_again=priced_again,
    )


def judged(rehearsal: Rehearsal) -> str:
    """The verdict; what is not confirmed says so in the document too."""
    lines = lines_of(rehearsal)
    words = verdict(lines)
    assert document_of(rehearsal, lines)["confirmed"] == words.startswith("confirmed")
    return words


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (1.05, "confirmed: 3 of 3 judged"),
        (2, "not confirmed: exchange +100.0%"),
        (100, "not confirmed: exchange +9900.0%"),
        (1 / 2, "not confirmed: exchange -50.0%"),
        (1 / 100, "not confirmed: exchange -99.0%"),
        (1.11, "not confirmed: exchange +11.0%"),
        (0.91, "confirmed: 3 of 3 judged"),
        (0.89, "not confirmed: exchange -11.0%"),
    ],
)
def test_an_exchange_that_was_priced_wrong_is_named(times: float, words: str) -> None:
    """Whichever way, and however long the round is beside it; of an honest plan also both links are
    confirmed. A slow round is that of a busy machine, the fastest counts.
    """
    plan = small()
    slow = 9.0 * max(1.0, times * plan.exchange_s)
    assert judged(rehearsed(plan, [times * plan.exchange_s, slow])) == words


def test_an_exchange_that_was_priced_next_to_nothing_is_named() -> None:
    """Priced at less than can be measured, it took a second."""
    plan = small_plan(*by_hand(workers=f"{US}=2xT4:spot"), 1 / 1000)
    assert plan.exchange_s < 0.01
    assert judged(rehearsed(plan, [1.0])).startswith("not confirmed: exchange +")


@pytest.mark.parametrize("whole_s", [0.02, 60.0])
def test_an_exchange_that_cannot_be_measured_is_not_confirmed(whole_s: float) -> None:
    """Too few milliseconds, or a share of 3 % of a round of calculation."""
    plan = small_plan(*by_hand(workers=f"{US}=2xT4:spot"), 1 / 1000) if whole_s < 1 else small()
    taken = rehearsed(plan, [plan.exchange_s])
    longer = [{**r, "step_s": whole_s, "calculation_s": whole_s - 0.01} for r in taken.records]
    lines = lines_of(replace(taken, records=longer))
    assert "too short, or too small a share of the round" in verdict(lines)
    assert not confirmed(lines)


@pytest.mark.parametrize(
    ("rate", "words"), [(7.5e6, f", rate {EU} -> {US} -50.0%"), (12.15e6, ""), (11.85e6, " -21.0%")]
)
def test_a_link_below_four_fifths_of_its_rate_is_named(rate: float, words: str) -> None:
    """The exchange was too long, and one of the links carried less than its 15 MB/s meanwhile."""
    plan = small()
    slow = rehearsed(plan, [1.8 * plan.exchange_s], rates={WAYS[0]: rate, WAYS[1]: 15.1e6})
    said = judged(slow)
    assert said.startswith("not confirmed: exchange +80.0%")
    assert said.endswith(words or "+80.0%")


@pytest.mark.parametrize(
    ("way", "bytes_of", "words"),
    [
        (WAYS[0], lambda told: 1.04 * told[WAYS[0]], f"not confirmed: {EU} -> {US} +4.0%"),
        (WAYS[0], lambda told: told[WAYS[0]] + 0.019 * max(told.values()), "confirmed: 3"),
        (WAYS[0], lambda told: told[WAYS[0]] - 0.021 * max(told.values()), "not confirmed: "),
        ((US, US), lambda told: 1e6, f"not confirmed: {US} -> {US}"),
        ((US, US), lambda told: 0.0099 * max(told.values()), "confirmed: 3 of 3 judged"),
        ((US, US), lambda told: 0.0101 * max(told.values()), f"not confirmed: {US} -> {US}"),
    ],
)
def test_bytes_that_no_plan_sends_are_named(
    way: tuple[str, str], bytes_of: Callable[[Mapping[Any, float]], float], words: str
) -> None:
    """More than 2 % beside those planned, of the way back if that has more; and a hundredth of the
    busiest link between places that send nothing.
    """
    plan = small()
    told = plan.sent_bytes(2)
    taken = rehearsed(plan, [plan.exchange_s], sent={**told, way: bytes_of(told)})
    assert judged(taken).startswith(words)


@pytest.mark.parametrize(
    ("said", "priced", "words"),
    [
        (0.02, 2.0, "not confirmed: exchange of the whole plan, priced again +9900.0%"),
        (1.0, 1.11, "not confirmed: exchange of the whole plan, priced again +11.0%"),
        (1.0, 0.89, "not confirmed: exchange of the whole plan, priced again -11.0%"),
        (1.0, 1.09, "confirmed: 3 of 3 judged"),
        (0.0, 1.0, "confirmed: 3 of 3 judged"),
    ],
)
def test_a_manifest_that_says_another_price_than_its_question_is_named(
    said: float, priced: float, words: str
) -> None:
    """Both exchanges are those of the whole plan; within a tenth, and where the manifest has none,
    nothing is judged.
    """
    plan = small()
    taken = rehearsed(plan, [plan.exchange_s], priced_again=(said, priced))
    assert judged(taken) == words
    assert any(line.what.startswith("exchange of the whole") for line in lines_of(taken)) == (
        words.startswith("not") or said == 0
    )


def test_of_peers_the_last_to_come_tells_how_long_an_exchange_takes() -> None:
    """Rank 1 came half a second later and waited for nobody."""
    plan = small().plan
    records = [step(rank, n, 2.0 - 0.5 * rank) for n in range(2) for rank in range(2)]
    assert exchange_seconds(records, plan) == [1.5]


def test_what_a_server_works_is_this_machines() -> None:
    """The far worker waited 2 s, of which the server summed for 0.3."""
    plan = small(exchange="parameter-server", aggregator=US).plan
    server = {"exchange_s": {"push": 1.0, "reduce": 0.3, "pull": 0.7}}
    records = [
        step(rank, n, 2.0 - 0.1 * (rank == 0), **(server if rank == 2 else {}))
        for n in range(2)
        for rank in range(3)
    ]
    records = [r if r["rank"] < 2 else {**r, "wire_s": 1.7} for r in records]
    assert exchange_seconds(records, plan) == pytest.approx([1.7])


def test_what_stores_of_this_machine_take_is_added_to_the_price() -> None:
    """Without shaped links they took 0.4 s; requests that are not as planned are named."""
    plan = small(exchange="central", **STORES)
    bucket = plan.plan.buckets[0].name
    asked = {"write": 4, "read": 6, "list": 3}
    records = [
        step(rank, n, 0.0, step_s=plan.exchange_s + 0.41) for n in range(2) for rank in range(4)
    ]
    for record in records:
        if record["rank"] == 3:
            record["requests_by_bucket"] = {bucket: asked}
    taken = replace(rehearsed(plan, [1.0]), records=records, machine_s=0.4)
    assert judged(taken).startswith("confirmed")
    asked["read"] = 5
    assert judged(taken) == "not confirmed: read -16.7%"
    assert plan.plan.machines[-1] == OREGON
