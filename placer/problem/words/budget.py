"""A budget in the user's words: USD per hour, or in total for all samples."""

from __future__ import annotations

import re

from placer.errors import PlacerError
from placer.market.words.money import in_dollars
from placer.units import parse_budget

TOTAL = re.compile(
    r"(?P<amount>[0-9,]*\.?[0-9]*(?:[eE][+-]?[0-9]{1,3})?)\s*(?:usd)?\s*(?:total|in total)?",
    re.IGNORECASE,
)


def read_budget(
    text: str, samples: str | int | None
) -> tuple[float | None, float | None, str | None]:
    """Read a budget as (USD per hour, USD in total, exchange rate), one of the first two None.
    ``text``: a rate such as ``5/h``, ``120/day`` or ``5EUR/h``; or, beside a number of samples, a
    total such as ``200``, ``$200``, ``200usd`` or ``200 total``. ``samples``: how many samples the
    total is for; without it an amount alone could be either, and is refused. `PlacerError` if the
    amount is ambiguous, zero, negative or not finite, or the currency is unknown.

    >>> read_budget("$1,200 total", "10M"), read_budget("200", "10M"), read_budget("5/h", "10M")
    ((None, 1200.0, None), (None, 200.0, None), (5.0, None, None))
    """
    written, rate = in_dollars(text)
    said = None if rate is None else f"{text.strip()} at {rate.words}"
    return (*_read_dollars(written, samples), said)


def _read_dollars(text: str, samples: str | int | None) -> tuple[float | None, float | None]:
    match = TOTAL.fullmatch(text.strip().removeprefix("$").strip())
    if (
        samples is None
        or match is None
        or not re.fullmatch(
            r"[0-9]{1,3}(,[0-9]{3})*(\.[0-9]*)?|[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?",
            match["amount"],
        )
    ):
        return parse_budget(text), None
    if float(match["amount"].replace(",", "")) <= 0:
        raise PlacerError(f"budget '{text}' must be above zero", "give a positive amount")
    return None, parse_budget(f"{match['amount'].replace(',', '')}/h")
