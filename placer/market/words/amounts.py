"""Amounts of price lists as people write them: ``1,89 €/Std.``, ``₹ 1,85,000 / month``."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

from placer.errors import PlacerError
from placer.market.words.money import SIGNS, exchange_rates
from placer.units import HOURS_PER_MONTH

Decimals = Literal["comma", "point"]
HOURS = {"hour": 1.0, "day": 24.0, "month": HOURS_PER_MONTH, "year": 12 * HOURS_PER_MONTH}
"""Hours of what a price may be for."""
_TIMES = {
    "hour": r"h|hrs?|hours?|hourly|std|stunden?|stundlich|heures?|horas?|ora|ore|uur|hodina",
    "day": r"day|daily|tag|taglich|jour|dia|giorno|dag",
    "month": r"mo|mth|months?|monthly|monate?|monatlich|mtl|mois|mensuel|mes|mensual|mese|maand",
    "year": r"yr|years?|yearly|annual|annually|jahr|jahrlich|an|ano|anno|jaar",
}
_EACH = {
    "gpu": r"(?:per|pro|je|par|por|/|a)\s*(?:gpu|card|karte|accelerator|beschleuniger)\b"
    r"|\bgpu[ -]?(?:h|hr|hour|std|stunde|price|preis)\b",
    "machine": r"(?:per|pro|je|par|por|/)\s*"
    r"(?:instance|instanz|node|knoten|server|machine|maschine|vm|system|host)\b",
}
_NUMBER = re.compile(r"[0-9](?:[0-9.,'’  ]*[0-9])?")
_MONEY = re.compile(r"[€£¥₹$]|\b[A-Za-z]{3}\b")


def plain(text: str) -> str:
    """Return a text in lower case without accents, in which words of headers are looked for.

    >>> plain("Preis_je GPU-Stunde (€), stündlich")
    'preis je gpu-stunde (€), stundlich'
    """
    parts = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("_", " "))
    return " ".join("".join(c for c in parts if not unicodedata.combining(c)).lower().split())


def time_in(text: str) -> str | None:
    """Return what a price is for by a word in a text: hour, day, month or year.

    >>> [time_in(t) for t in ("€/Std.", "INR per month", "Preis", "$/GPU-hr")]
    ['hour', 'month', None, 'hour']
    """
    return _word_in(
        text, {name: rf"(?<![a-z])(?:{words})(?![a-z0-9])" for name, words in _TIMES.items()}
    )


def each_in(text: str) -> str | None:
    """Return whether a text says that a price is of a gpu or of a machine.

    >>> [each_in(t) for t in ("Preis je GPU-Stunde", "USD per node", "price")]
    ['gpu', 'machine', None]
    """
    return _word_in(text, _EACH)


def _word_in(text: str, patterns: dict[str, str]) -> str | None:
    words = plain(text)
    return next((name for name, pattern in patterns.items() if re.search(pattern, words)), None)


def currency_in(text: str) -> str | None:
    """Return the currency that a text names by a sign or a code; a dollar sign is USD. In small
    letters a code counts where it has a dated rate: others are words.

    >>> [currency_in(t) for t in ("1,25 €", "CHF 2'150", "US$ 3", "price_eur", "1.25", "try all")]
    ['EUR', 'CHF', 'USD', 'EUR', None, None]
    """
    dated = (*exchange_rates(), "USD")
    for found in _MONEY.findall(text.replace("_", " ")):
        code = "USD" if found == "$" else SIGNS.get(found, found)
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
    return None if len(bare) - bare.rfind(sign) == 4 and not bare.startswith("0") else last


def amount(text: str, decimals: Decimals) -> float | None:
    """Read the number of a text; None without one.

    >>> amount("1.250,50 €", "comma"), amount("₹ 1,85,000 / month", "point"), amount("-", "point")
    (1250.5, 185000.0, None)
    """
    number = number_in(text)
    if number is None:
        return None
    bare = re.sub(r"['’  ]", "", number)
    group, point = (".", ",") if decimals == "comma" else (",", ".")
    return float(bare.replace(group, "").replace(point, "."))


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
