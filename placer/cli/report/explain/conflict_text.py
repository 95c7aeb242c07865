"""Wishes that contradict each other, in words."""

from __future__ import annotations

from placer.advice.explanation.conflict import Conflict, Remedy
from placer.cli.report.recommend.sentences import brief
from placer.solving.result import Option
from placer.units import format_speed, format_usd


def conflict_lines(conflict: Conflict) -> list[str]:
    """Return the sentences that name the contradiction, what would do instead of each wish, and the
    wishes that have no part in it.
    """
    if not conflict.wishes:
        return [
            (
                "No machine of this catalog can train this model under any limits: none has both "
                "the memory and a known speed."
            )
        ]
    names = [wish.words for wish in conflict.wishes]
    if len(names) == 1:
        lines = [
            (
                f"{_upper(names[0])} cannot be met by anything in this catalog; without it there "
                f"is an answer."
            )
        ]
    else:
        joined = f"{', '.join(names[:-1])} and {names[-1]}"
        either = "either" if len(names) == 2 else "any one of them"
        lines = [(f"{_upper(joined)} contradict each other; without {either} there is an answer.")]
    lines.append(
        "Proved: no placement meets them together."
        if conflict.minimal
        else "Proved: no placement meets them together. Some of them may suffice for that."
    )
    lines += [remedy_line(remedy) for remedy in conflict.remedies]
    if conflict.together is not None:
        every = "both" if len(names) == 2 else "all of them"
        lines.append(f"Without {every}: {_found(conflict.together)}.")
    if conflict.further is not None:
        return [
            *lines,
            "Even without them the other wishes have no answer:",
            *conflict_lines(conflict.further),
        ]
    if conflict.others:
        lines.append(f"Not involved: {'; '.join(wish.words for wish in conflict.others)}.")
    return lines


def remedy_line(remedy: Remedy) -> str:
    """Say what one wish would have to become, the others kept."""
    option, wish = remedy.option, remedy.wish
    if option is None:
        if not remedy.proved:
            return f"No answer without {wish.words} was found (not proved)."
        return (
            f"{_upper(wish.words)}: giving that up alone is not enough, the other wishes still "
            f"have no answer."
        )
    figure = _found(option)
    least = {
        "budget": "the least budget",
        "throughput": "the highest floor",
        "deadline": "the shortest time",
        "total-budget": "the least money",
        "carbon": "the least emissions",
    }.get(wish.code)
    if least is not None and option.note != wish.change:
        known = f", {least} that works" if remedy.proved else f" ({least} is not proved)"
        return f"With {option.note}{known}: {figure}."
    return f"With {option.note}: {figure}."


def _found(option: Option) -> str:
    """Name a placement with its speed and price."""
    speed, usd = (
        option.estimate.effective_samples_per_second.value,
        option.estimate.usd_per_hour.total,
    )
    fast = format_speed(speed, option.estimate.tokens_per_sample)
    return f"{brief(option.placement)}, {fast} for {format_usd(usd)}/h"


def _upper(text: str) -> str:
    return text if text.startswith("-") else text[:1].upper() + text[1:]
