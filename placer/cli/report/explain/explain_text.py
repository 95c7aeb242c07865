"""An explanation in words, as a colleague would say it: sections of sentences with numbers and
units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from placer.advice.explanation.answer import Explanation
from placer.advice.explanation.binding import Binding, Joint, Limit
from placer.advice.explanation.marginal_values import Worth
from placer.advice.explanation.stay_or_leave import Staying
from placer.cli.report.explain.conflict_text import conflict_lines
from placer.cli.report.explain.why_not_text import why_not_lines
from placer.cli.report.recommend.sentences import brief, signed_percent
from placer.cli.report.values import amount_text, value_text
from placer.cost_model.estimate import Estimate
from placer.cost_model.objective import objective_of
from placer.problem.problem import Problem
from placer.solving.result import Option, Result
from placer.units import counted, format_duration, format_number, format_speed, format_usd

Section = tuple[str, list[str]]
NO_GAIN = 0.001
"""Gains below are called none."""
QUOTA_UNITS = {"gpus": "GPUs", "vcpus": "vCPUs"}
UNIT_WORDS = {"gpus": "GPU", "workers": "worker", "regions": "region"}


def sections(explanation: Explanation) -> list[Section]:
    """Build the titles and sentences of an explanation, in the order in which they are read."""
    result = explanation.result
    made: list[Section] = []
    if explanation.conflict is not None:
        made.append(("Why nothing fits", conflict_lines(explanation.conflict)))
    if explanation.binding is not None:
        made.append(("What binds", list(binding_lines(explanation.binding, result))))
    made += [
        (f"Why not {row.subject}", list(why_not_lines(row, result))) for row in explanation.why_not
    ]
    if explanation.worth:
        made.append(
            (
                "What one more is worth",
                [line for row in explanation.worth for line in worth_lines(row, result)],
            )
        )
    if explanation.staying is not None:
        made.append(("Stay in one region?", list(stay_lines(explanation.staying, result))))
    if not explanation.complete:
        text = (
            f"The time was up after {explanation.seconds:.0f} s: what is missing or not proved "
            f"above was not tried (--time-limit)."
        )
        made.append(("Not complete", [text]))
    return made


def value_words(estimate: Estimate) -> str:
    """Give speed and price of a placement in words."""
    return (
        f"{format_speed(estimate.effective_samples_per_second.value, estimate.tokens_per_sample)} "
        f"for {format_usd(estimate.usd_per_hour.total)}/h"
    )


def gain_words(gain: float, problem: Problem) -> str:
    """Give the improvement of the objective as a signed share: more samples/s, or less money."""
    return signed_percent(objective_of(problem.requirements).sign * gain)


def binding_lines(binding: Binding, result: Result) -> Iterator[str]:
    """Say what keeps a better placement away, and what does not."""
    problem = result.problem
    idle: list[str] = []
    open_: list[str] = []
    for limit in binding.limits:
        if limit.binds:
            yield _binding_line(limit, problem)
        else:
            (idle if limit.binds is False else open_).append(_slack(limit))
    for joint in binding.joint or ():
        yield _joint_line(joint, problem)
    if not any(limit.binds for limit in binding.limits) and not binding.joint:
        proved = not open_ and binding.joint is not None
        sentence = "Nothing binds" if proved else "Nothing was found to bind"
        yield f"{sentence}: no limit that was tried keeps a better placement away."
    if open_:
        yield f"Not proved either way: {'; '.join(open_)}."
    if idle:
        alone = " when given up alone" if binding.joint else ""
        yield f"Without effect on the answer{alone}: {'; '.join(idle)}."
    yield from _one_more_line(binding, result)


def _joint_line(joint: Joint, problem: Problem) -> str:
    """Describe limits that bind together, and the best without them."""
    *first, last = joint.words
    alone, both = ("Neither", "both") if len(joint.words) == 2 else ("None", "all of them")
    return (
        f"Together: {', '.join(first)} and {last}. {alone} alone changes anything; without "
        f"{both} {value_words(joint.better.estimate)} ({gain_words(joint.gain, problem)}): "
        f"{brief(joint.better.placement)}."
    )


def _slack(limit: Limit) -> str:
    """Say of a limit how much of it is used."""
    if limit.used is None or limit.limit is None:
        return limit.words
    if limit.unit == "usd_per_hour":
        return f"{limit.words} ({format_usd(limit.used)} used)"
    if limit.unit == "samples_per_second":
        return f"{limit.words} ({format_number(limit.used)} reached)"
    if limit.unit in QUOTA_UNITS:
        unit = QUOTA_UNITS[limit.unit]
        return f"quota of {limit.words} ({limit.used:g} of {limit.limit:g} {unit} used)"
    plain = {
        "seconds": format_duration,
        "usd": format_usd,
        "usd_per_million_samples": format_usd,
        "g_per_hour": format_number,
    }
    if limit.unit in plain:
        return f"{limit.words} ({plain[limit.unit](limit.used)})"
    return f"{limit.words} ({counted(round(limit.used), UNIT_WORDS[limit.unit])})"


def _binding_line(limit: Limit, problem: Problem) -> str:
    """Describe one binding limit: slack, the next better placement, the best without it."""
    used, most = limit.used, limit.limit
    name = {
        "quota": f"quota of {limit.words}"
        if limit.unit in QUOTA_UNITS and used is not None
        else limit.words
    }.get(limit.code, limit.words)
    if limit.code == "budget" and used is not None and most is not None:
        name = f"budget: {format_usd(used)} of {format_usd(most)} an hour used"
    elif limit.code == "throughput" and used is not None:
        name = f"floor: {limit.words} are wanted, {format_number(used)} reached"
    elif limit.code == "quota" and used is not None and most is not None:
        name = f"{name}: {used:g} of {most:g} {QUOTA_UNITS[limit.unit]} used"
    sentences = []
    if limit.nearest is not None:
        nearest = (
            "the next better placement costs"
            if limit.code == "budget"
            else "the next cheaper placement reaches"
        )
        usd, speed = (
            limit.nearest.estimate.usd_per_hour.total,
            limit.nearest.estimate.effective_samples_per_second.value,
        )
        fast = format_speed(speed, limit.nearest.estimate.tokens_per_sample)
        amount = (
            f"{format_usd(usd)}/h" if limit.code == "budget" else f"{fast} for {format_usd(usd)}/h"
        )
        extra = f", {fast}" if limit.code == "budget" else ""
        sure = "" if limit.nearest.proved else " at most (not proved)"
        sentences.append(f"{nearest} {amount}{sure} ({brief(limit.nearest.placement)}{extra})")
    if limit.better is not None and limit.gain is not None:
        least = "" if limit.better.proved else " at least"
        gain = f"({gain_words(limit.gain, problem)}{least})"
        text = f"without it {value_words(limit.better.estimate)} {gain}"
        same = limit.nearest is not None and limit.nearest.placement == limit.better.placement
        sentences.append(text if same else f"{text}: {brief(limit.better.placement)}")
    return f"{name[:1].upper()}{name[1:]}; {'; '.join(sentences)}."


def _one_more_line(binding: Binding, result: Result) -> Iterator[str]:
    """Yield whether the same machines with one more of them would do better: where the exchange
    ends to scale.
    """
    more, got = binding.one_more, result.estimate
    if more is None or got is None:
        return
    speed, other = (
        got.effective_samples_per_second.value,
        more.estimate.effective_samples_per_second.value,
    )
    step, length = more.estimate.step, got.tokens_per_sample
    share = (
        f"{100 * (step.total - step.calculation) / step.total:.0f} % of each step is waiting "
        f"for the exchange"
    )
    usd = format_usd(more.estimate.usd_per_hour.total)
    if other <= speed * (1 + NO_GAIN):
        machines = (
            f"one more of the same machine ({brief(more.placement)}, "
            f"{more.placement.exchange.strategy})"
        )
        yield (
            f"The exchange does not scale further: {machines} reaches "
            f"{format_speed(other, length)} instead of {format_speed(speed, length)}, for {usd}/h; "
            f"{share}."
        )
    else:
        yield (
            f"One more of the same machine would reach {format_speed(other, length)} "
            f"({signed_percent(other / speed - 1)}) "
            f"for {usd}/h; {share}."
        )


def worth_lines(row: Worth, result: Result) -> Iterator[str]:
    """Say what one more brings, and the least that brings anything."""
    problem = result.problem
    amount = {
        "usd_per_hour": f"+{format_usd(row.step)}/h",
        "megabits_per_second": f"+{row.words}",
        "gpus": f"+1 {row.words}",
        "workers": "+1 worker",
    }[row.unit]
    if row.option is not None and row.gain is not None:
        yield (
            f"{amount}: {_from_to(row.option, result)} ({gain_words(row.gain, problem)}), by "
            f"{brief(row.option.placement)}."
        )
    elif row.gain is None:
        yield f"{amount}: no change was found (not proved)."
    else:
        yield f"{amount}: nothing changes."
    if row.least is None:
        if row.gain == 0 and row.code != "bandwidth":
            yield (
                f"Nothing better was found with up to "
                f"{'twice the budget' if row.unit == 'usd_per_hour' else 'twice as many'}."
            )
        return
    if (
        row.least_option is None
        or row.least_gain is None
        or (row.unit != "usd_per_hour" and row.least <= row.step)
    ):
        return
    least = (
        format_usd(math.ceil(row.least * 100) / 100) + "/h"
        if row.unit == "usd_per_hour"
        else f"{row.least:g} {row.words}"
    )
    least = least if row.unit == "usd_per_hour" else least.replace("GPU of", "GPUs of")
    if row.unit == "workers":
        least = counted(round(row.least), "worker")
    text = (
        f"The least that changes anything is +{least}: {_from_to(row.least_option, result)} "
        f"({gain_words(row.least_gain, problem)})"
    )
    same = row.option is not None and row.option.placement == row.least_option.placement
    yield f"{text}, {'the same machines' if same else brief(row.least_option.placement)}."


def _from_to(option: Option, result: Result) -> str:
    """Give the change of the objective from the best to another placement."""
    objective = result.objective
    assert result.value is not None
    now, then = result.value, objective.value(option.estimate)
    length = option.estimate.tokens_per_sample
    return f"{amount_text(now, objective, length)} -> {value_text(then, objective, length)}"


def stay_lines(row: Staying, result: Result) -> Iterator[str]:
    """Say whether one region or several are best, and when that changes."""
    if row.regions > 1:
        yield from _several_lines(row, result)
        return
    proof = "proved" if str(result.status) == "optimal" else "not proved: the search was stopped"
    one = (
        "one machine, nothing to exchange"
        if result.placement is not None and result.placement.workers == 1
        else "one region"
    )
    yield f"Stay: {one} is best for this request ({proof})."
    if row.leave is not None:
        before = (
            (
                f" Up to there one region goes as far as {value_words(row.last.estimate)} "
                f"({brief(row.last.placement)})."
            )
            if row.last
            else ""
        )
        usd, sure = (
            format_usd(row.leave.estimate.usd_per_hour.total),
            "" if row.leave.proved else " at the latest (not proved that not earlier)",
        )
        last = row.last.estimate.effective_samples_per_second.value if row.last else 0.0
        floor = (
            f" (a floor beyond {format_speed(last, row.leave.estimate.tokens_per_sample)})"
            if last and result.problem.requirements.objective == "cost"
            else ""
        )
        yield (
            f"Leaving it starts to pay at {usd}/h{floor}{sure}: "
            f"{value_words(row.leave.estimate)} with {brief(row.leave.placement)}.{before}"
        )
    elif row.never:
        limit = "at any budget" if row.unlimited else f"up to {format_usd(row.most_usd_per_hour)}/h"
        where = (
            ""
            if row.last is None
            else (
                f": one region goes as far as {value_words(row.last.estimate)} "
                f"({brief(row.last.placement)}), and nothing beats that"
            )
        )
        yield f"Leaving never pays {limit}{where} (steps of speed below 1 % not counted)."
    elif row.last is not None:
        usd = format_usd(row.last.estimate.usd_per_hour.total)
        yield (
            f"Leaving does not pay up to {usd}/h: one region reaches "
            f"{value_words(row.last.estimate)} there. Beyond, nothing is proved."
        )


def _several_lines(row: Staying, result: Result) -> Iterator[str]:
    """Say what staying in one region would cost where several are used."""
    assert result.placement is not None
    if row.alone is None:
        proof = (
            "no placement in one region meets the wishes (proved)"
            if row.proved
            else "none in one region was found (not proved)"
        )
        yield f"Leave: the best placement uses {row.regions} regions, and {proof}."
        return
    sure, objective = "" if row.proved else " at most (not proved)", result.objective
    if row.loss is None:  # the best costs nothing, so there is no share
        text = f"cost {value_text(objective.value(row.alone.estimate), objective)}"
    elif objective.maximised:
        quantity = objective.quantity
        if row.alone is not None and row.alone.estimate.tokens_per_sample is not None:
            quantity = quantity.replace("sample", "token")
        text = f"lose {format_number(100 * row.loss)} % of the {quantity}"
    else:
        text = f"cost {format_number(100 * row.loss)} % more {objective.quantity}"
    where = f"{value_words(row.alone.estimate)} with {brief(row.alone.placement)}"
    yield f"Leave: {row.regions} regions are best. Staying in one would {text}{sure}: {where}."
