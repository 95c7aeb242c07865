"""Chooses who runs where: by the search that an objective needs."""

from __future__ import annotations

from placer.advice.portfolio.faster import faster
from placer.advice.portfolio.generation import Found, solved
from placer.advice.portfolio.question.jobs import Portfolio
from placer.solving.answer import SolveOptions


def chosen(portfolio: Portfolio, options: SolveOptions) -> Found:
    """Choose who runs where and when.

    Parameters
    ----------
    options
        Gap of the portfolio and time for all of it.
    """
    return (faster if portfolio.by_speed else solved)(portfolio, options)
