"""Money of other currencies in USD, at dated rates."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from placer.errors import PlacerError, unknown
from placer.market.books.csv_rows import shipped_table

_CODES = "EUR GBP INR KRW RUB TRY UAH ILS VND THB PHP"
SIGNS = {**dict(zip("€£₹₩₽₺₴₪₫฿₱", _CODES.split(), strict=True)), "zł": "PLN", "Kč": "CZK"}
"""Signs that stand for one currency; ¥ is that of Japan and of China, and kr that of three."""
SHARED_SIGNS = {"¥": ("JPY", "CNY")}
_MONEY = rf"(?P<money>{'|'.join((*SIGNS, *SHARED_SIGNS))}|[A-Za-z]{{3}}(?![A-Za-z]))"
_BEFORE = re.compile(rf"{_MONEY}\s*(?P<rest>[0-9.,].*)")
_AFTER = re.compile(
    r"(?P<amount>[0-9.,]+(?:[eE][+-]?[0-9]{1,3}(?![A-Za-z]))?)\s*" + _MONEY + r"(?P<rest>.*)"
)
_OWN_WORDS = ("usd", "per")  # Three letters in an amount that name no foreign currency


class ExchangeRate(Struct, frozen=True, kw_only=True):
    """A row of catalogs/exchange_rates.csv: USD for one unit of a currency on a day."""

    currency: str
    usd: float
    source: str
    as_of: str

    @property
    def words(self) -> str:
        """Say the rate with its day and its source."""
        return f"1 {self.currency} = {self.usd:.6g} USD on {self.as_of} ({self.source})"


@lru_cache(maxsize=1)
def exchange_rates() -> dict[str, ExchangeRate]:
    """Return the rates by currency (catalogs/exchange_rates.csv)."""
    return {row.currency: row for row in shipped_table("exchange_rates.csv", ExchangeRate)}


def in_dollars(text: str) -> tuple[str, ExchangeRate | None]:
    """Write an amount of money, such as ``5EUR/h``, ``€5/h`` or ``EUR 200``, in USD with what stood
    behind it, and the rate; an amount in USD stays as it is and has none.

    >>> in_dollars("5/h"), in_dollars("€100 total")[0]
    (('5/h', None), '112.04 total')
    """
    body = text.strip()
    before, after = _BEFORE.fullmatch(body), _AFTER.fullmatch(body)
    if before is not None:
        match = re.match(r"[0-9.,]+(?:[eE][+-]?[0-9]+)?", before["rest"])
        amount = "" if match is None else match[0]
        money, rest = before["money"], before["rest"][len(amount) :]
    elif after is not None:
        money, amount, rest = after["money"], after["amount"], after["rest"]
    else:
        return text, None
    if money.lower() in _OWN_WORDS:
        return text, None
    if money in SHARED_SIGNS:
        codes = SHARED_SIGNS[money]
        tip = f"name it: {' or '.join(f'{amount}{code}{rest}' for code in codes)}"
        raise PlacerError(f"budget '{text}': {money} is the sign of {' and '.join(codes)}", tip)
    currency = SIGNS.get(money, money.upper())
    rate = exchange_rates().get(currency)
    if rate is None:
        error = unknown("currency", currency, ["USD", *exchange_rates()])
        tip = f"{error.hint}; give the budget in USD: 5/h"
        raise PlacerError(f"budget '{text}': {error.message}", tip)
    if not re.fullmatch(
        r"[0-9]{1,3}(,[0-9]{3})*(\.[0-9]*)?|[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?", amount
    ):
        raise PlacerError(f"budget '{text}' is not an amount", "write it as 5EUR/h")
    return f"{float(amount.replace(',', '')) * rate.usd:.12g}{rest}", rate
