"""Money as people write it: in other currencies at dated rates, and in price lists (``1,89 €``)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from msgspec import Struct

from placer.errors import PlacerError, unknown
from placer.files.bounded_file import read_toml
from placer.market.books.csv_rows import shipped_table
from placer.units import HOURS_PER_MONTH

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


Decimals = Literal["comma", "point"]
_SHORT_HOURS = {"second": 1 / 3600, "minute": 1 / 60, "hour": 1.0, "day": 24.0, "week": 168.0}
HOURS = {**_SHORT_HOURS, "month": HOURS_PER_MONTH, "year": 12 * HOURS_PER_MONTH}
"""Hours of what a price may be for."""
_NUMBER = re.compile(r"(?:(?<![0-9A-Za-z])[.,])?[0-9](?:[0-9.,'’  ]*[0-9])?")
_SIGNED = re.compile(rf"[A-Za-z]*\$|{'|'.join(SIGNS)}|\b[A-Za-z]{{3}}\b")


@cache
def price_words(table: str) -> Mapping[str, str]:
    """Return a table of price_words.toml: patterns by what they mean, and names."""
    path = Path(__file__).with_name("price_words.toml")
    found: dict[str, str] = read_toml(str(path), "install placer again")[table]
    return found


def plain(text: str) -> str:
    """Return a text in lower case without accents, in which words of headers are looked for.

    >>> plain("Preis_je GPU-Stunde (€), stündlich")
    'preis je gpu-stunde (€), stundlich'
    """
    parts = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("_", " "))
    return " ".join("".join(c for c in parts if not unicodedata.combining(c)).lower().split())


def _apart(text: str) -> str:
    """Put blanks between the words of a name such as ``pricePerHour``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", text.replace("_", " "))


def time_in(text: str) -> str | None:
    """Return what a price is for by a word in a text: one of `HOURS`. What stands behind a word
    such as per counts first, and how often it is billed not at all.

    >>> [time_in(t) for t in ("€/Std.", "INR per month", "Preis", "$/GPU-hr", "price tag")]
    ['hour', 'month', None, 'hour', None]
    >>> time_in("USD per month, billed hourly"), time_in("hourly or monthly"), time_in("$/s")
    ('month', None, 'second')
    """
    found = _times_in(text)
    return found[0][1] if found else None


def hours_in(text: str) -> float | None:
    """Return the hours that a price is for, in a text such as a header or a cell of units.

    >>> hours_in("USD per 1,000 GPU-hours"), hours_in("1 Hour"), hours_in("per 12 months")
    (1000.0, 1.0, 8760.0)
    """
    found = _times_in(text)
    return found[0][0] * HOURS[found[0][1]] if found else None


def _times_in(text: str) -> list[tuple[float, str]]:
    """Return how many of what time a price is for; nothing where a text names several times."""
    words = re.sub(price_words("price")["billed"], "", plain(_apart(text)))
    told: dict[tuple[float, str], None] = {}
    named: dict[tuple[float, str], None] = {}
    per, short_times = price_words("price")["per"], price_words("short_times")
    for name, long in price_words("times").items():
        short = f"|{short_times[name]}" if name in short_times else ""
        number, time = r"(?<![0-9])([0-9][0-9.,]{0,8})?\s*", rf"(?:{long}{short})(?![a-z0-9])"
        pattern = rf"{per}{number}(?:[a-z]+[ -])?{time}|^{number}{time}$"
        for found in re.finditer(pattern, words):
            told[float(re.sub(r"[.,]", "", found[1] or found[2] or "1")), name] = None
        if re.search(rf"(?<![a-z])(?:{long})(?![a-z0-9])", words):
            named[1.0, name] = None
    best = [*(told or named)]
    return best if len(best) == 1 else []


def named_in(words: str, table: str) -> str | None:
    """Return the first name of a table of price_words.toml whose pattern `plain` words have."""
    patterns = price_words(table).items()
    return next((name for name, pattern in patterns if re.search(pattern, words)), None)


def part_in(text: str) -> float:
    """Return what one unit of a price is of its currency: 0.01 for cents, 1,000 for thousands.

    >>> part_in("ct/h"), part_in("kUSD"), part_in("USD")
    (0.01, 1000.0, 1.0)
    """
    return float(named_in(plain(_apart(text)), "parts") or 1.0)


def each_in(text: str) -> str | None:
    """Return whether a text says that a price is of a gpu or of a machine.

    >>> [each_in(t) for t in ("Preis je GPU-Stunde", "USD per node", "price")]
    ['gpu', 'machine', None]
    """
    return named_in(plain(_apart(text)), "each")


def currency_in(text: str) -> str | None:
    """Return the currency that a text names by a sign or a code; a bare dollar sign is USD, and one
    behind letters that name no country is none. In small letters a code counts where it has a dated
    rate: others are words.

    >>> [currency_in(t) for t in ("1,25 €", "CHF 2'150", "US$ 3", "price_eur", "1.25", "try all")]
    ['EUR', 'CHF', 'USD', 'EUR', None, None]
    >>> [currency_in(t) for t in ("A$ 3", "C$3", "R$ 14,50", "¥450", "JPY ¥450", "J$3")]
    ['AUD', 'CAD', 'BRL', None, 'JPY', None]
    """
    dated = (*exchange_rates(), "USD")
    for found in _SIGNED.findall(_apart(text)):
        if found.endswith("$"):
            return price_words("dollars").get(found[:-1].lower())
        code: str = SIGNS.get(found, found)
        if code.upper() in dated or code in _OTHERS:
            return code.upper()
    return None


_OTHERS = (
    *("BRL", "MXN", "ARS", "CLP", "COP", "ZAR", "KRW", "TWD", "HKD", "SGD", "THB", "IDR", "MYR"),
    *("PHP", "VND", "TRY", "ILS", "AED", "SAR", "QAR", "KWD", "EGP", "NGN", "KES", "HUF", "RON"),
    *("BGN", "UAH", "RUB", "KZT", "PKR", "BDT", "LKR", "NZD", "ISK"),
)
"""Currencies without a dated rate, by ISO 4217, so that one is named and not taken for a word."""


def number_in(text: str) -> str | None:
    """Return the number that a text has, as it is written; None without one, or with several."""
    found = _NUMBER.findall(text)
    return found[0] if len(found) == 1 else None


def decimals_of(numbers: Iterable[str]) -> Decimals | None:
    """Tell whether numbers of one column have a decimal comma or a decimal point, from all of them
    together; None where they may be read both ways, as ``1,250`` may.

    >>> decimals_of(["1,89", "12,5"]), decimals_of(["1.250,00"]), decimals_of(["1,85,000"])
    ('comma', 'comma', 'point')
    >>> decimals_of(["2", "31"]), decimals_of(["1,250"]), decimals_of(["1.250"])
    ('point', None, None)
    """
    kinds = {kind for kind in map(_decimals, numbers) if kind != "any"}
    sure = kinds - {None}
    if len(sure) == 1:
        (only,) = sure
        return "comma" if only == "comma" else "point"
    return None if kinds else "point"


def _decimals(number: str) -> str | None:
    """Return ``any`` for a number without either sign, and None for one that is read both ways."""
    bare = re.sub(r"['’  ]", "", number)
    comma, point = bare.rfind(","), bare.rfind(".")
    if comma >= 0 and point >= 0:
        return "comma" if comma > point else "point"
    sign = "," if comma >= 0 else "."
    if comma < 0 and point < 0:
        return "any"
    last = "comma" if sign == "," else "point"
    other = "point" if sign == "," else "comma"
    if bare.count(sign) > 1:  # groups of thousands, also of lakhs
        return other
    return None if len(bare) - bare.rfind(sign) == 4 and bare[0] not in "0.," else last


def amount(text: str, decimals: Decimals) -> float | None:
    """Read the number of a text; None without one.

    >>> amount("1.250,50 €", "comma"), amount("₹ 1,85,000 / month", "point"), amount("-", "point")
    (1250.5, 185000.0, None)
    >>> amount("$.75", "point"), amount("-2 €", "comma")
    (0.75, -2.0)
    """
    number = number_in(text)
    if number is None:
        return None
    bare = re.sub(r"['’  ]", "", number)
    group, point = (".", ",") if decimals == "comma" else (",", ".")
    value = float(bare.replace(group, "").replace(point, "."))
    return -value if re.match(r"[^0-9A-Za-z]*[-−][^0-9A-Za-z]*[0-9]", text) else value


def rates_given(words: Iterable[str]) -> dict[str, float]:
    """Read rates such as ``EUR=1.12``: USD for one unit. Raise `PlacerError` for anything else."""
    rates = {}
    for word in words:
        match = re.fullmatch(r"\s*([A-Za-z]{3})\s*=\s*([0-9]*\.?[0-9]+)\s*", word)
        if match is None or not 0 < float(match[2]) < 1e6:
            raise PlacerError(f"rate '{word}' is not USD for one unit", "write it as EUR=1.12")
        rates[match[1].upper()] = float(match[2])
    return rates


def rate_of(currency: str, given: dict[str, float]) -> tuple[float, str]:
    """Return USD for one unit of a currency, and where it stands; `PlacerError` without a rate."""
    if currency == "USD":
        return 1.0, ""
    if currency in given:
        return given[currency], f"1 {currency} = {given[currency]:.6g} USD as given"
    rate = exchange_rates().get(currency)
    if rate is None:
        raise PlacerError(
            f"no rate of {currency} is known",
            f"say what 1 {currency} is in USD, such as --rate {currency}=0.5",
        )
    return rate.usd, rate.words
