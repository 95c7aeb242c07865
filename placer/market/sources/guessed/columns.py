"""Which column of a price list is which: guessed from its header and from what stands below."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from placer.errors import PlacerError, unknown
from placer.market.catalog import Catalog
from placer.market.sources.guessed.devices import device_in
from placer.market.words.money import (
    HOURS,
    Decimals,
    amount,
    currency_in,
    decimals_of,
    each_in,
    hours_in,
    named_in,
    number_in,
    plain,
    price_words,
    time_in,
)
from placer.market.words.places import is_place, place_in

MOST = 0.5
"""Least share of the cells of a column that must look like what it is taken for."""
NEAR = 0.75
"""Share of what it would be by which a price of several GPUs may differ; machines of 2 and of 1 lie
apart by it whatever a price is of.
"""
EXAMPLES = 200
"""Rows that are looked at."""
ALONE = ("per", "decimals", "egress")
"""What may be said of all rows, besides columns."""
FIELDS = (*price_words("headers"), *ALONE)
WRITE = "such as --columns price=Preis,region=Standort"


class Guess(NamedTuple):
    """What a field is read from: a column, or a value that holds for all rows; and why."""

    column: str | None
    value: str | None
    why: str


Rows = Sequence[Mapping[str, str]]


def guessed(
    names: Sequence[str], rows: Rows, given: Mapping[str, str], book: Catalog
) -> dict[str, Guess]:
    """Guess which columns have what, and what their prices mean.

    ``given``: columns or values by field, which are no guesses. Raise `PlacerError` that says what
    to type if no column has a price or a device, or what a price is of is not said.
    """
    some = rows[:EXAMPLES]
    found = dict(given_guesses(names, given))
    taken = {guess.column for guess in found.values()}
    for field in _ORDER:
        if field in found or (field == "unit" and _time_is_said(found, some)):
            continue
        best = max(
            (
                (_score(field, name, some, book), -number, name)
                for number, name in enumerate(names)
                if name not in taken
            ),
            default=(0.0, 0, ""),
        )
        if best[0] > 0:
            found[field] = Guess(best[2], None, _why(field, best[2], some, book))
            taken.add(best[2])
    if "gpu" not in found:
        raise PlacerError("no column names a GPU that is known", f"say which one, {_write('gpu')}")
    if not {"price", "spot"} & {*found}:
        raise PlacerError("no column looks like a price", f"say which one, {_write('price')}")
    _complete(found, some, book)
    return {field: found[field] for field in FIELDS if field in found}


def _complete(found: dict[str, Guess], rows: Rows, book: Catalog) -> None:
    """Add what prices mean and ask for what nothing says, all of it at once."""
    column = (found.get("price") or found["spot"]).column or ""
    missing = []
    if "region" not in found:
        missing.append(
            PlacerError("no column says where the machines are", "--columns region=Frankfurt")
        )
    if {"price", "spot"} <= {*found}:
        _check_alike(found["price"], found["spot"])
    for field, made in (("currency", _currency), ("unit", _unit), ("decimals", _decimals)):
        try:
            found[field] = found.get(field) or made(column, rows)
        except PlacerError as error:
            missing.append(error)
    if "per" not in found and {"unit", "decimals"} <= {*found}:
        try:
            found["per"] = _per(column, found, rows, book)
        except PlacerError as error:
            missing.append(error)
    if missing:
        hints = ", and ".join(error.hint for error in missing)
        raise PlacerError("; ".join(error.message for error in missing), f"say it: {hints}")


_ORDER = (
    *("gpu", "region", "currency", "spot", "price", "unit", "market", "vram", "memory"),
    *("vcpus", "count"),
    "machine",
)
"""Fields from those whose cells are told best to those that are told by the header."""


def _write(field: str) -> str:
    return f"such as --columns {field}=NAME"


def given_guesses(names: Sequence[str], given: Mapping[str, str]) -> Iterator[tuple[str, Guess]]:
    """Yield what was given of fields; `PlacerError` for an unknown field, column or value."""
    for field, word in given.items():
        if field not in FIELDS:
            raise unknown("field", field, FIELDS, WRITE)
        if word in names and field not in ALONE:
            yield field, Guess(word, None, "as you said")
            continue
        if field not in _VALUES:
            raise unknown("column", word, names, WRITE)
        is_value, examples = _VALUES[field]
        if not is_value(word):
            tip = f"name a column ({', '.join(names[:8])}), or a value: {examples}"
            raise PlacerError(f"{field} '{word}' is neither a column nor a value", tip)
        yield field, Guess(None, word, "as you said")


_VALUES: Mapping[str, tuple[Callable[[str], object], str]] = {
    "currency": (
        lambda word: currency_in(word.upper()) or re.fullmatch(r"[A-Za-z]{3}", word),
        "EUR",
    ),
    "unit": (hours_in, "hour, day, month, year or 1000 hours"),
    "per": (("gpu", "machine").__contains__, "gpu or machine"),
    "decimals": (("comma", "point").__contains__, "comma or point"),
    "market": (("on_demand", "on-demand", "spot").__contains__, "on-demand or spot"),
    "region": (place_in, "a city or a country"),
    "egress": (re.compile(r"[0-9]*\.?[0-9]+").fullmatch, "USD per GB, such as 0.01"),
    "count": (re.compile(r"[1-9][0-9]?").fullmatch, "a number of GPUs"),
}
"""Fields that may have one value for all rows: what tells such a value, and examples."""


def _cells(name: str, rows: Rows) -> list[str]:
    return [row[name] for row in rows if row[name]]


def _score(field: str, name: str, rows: Rows, book: Catalog) -> float:
    """Return how much a column looks like a field: 0 where it does not."""
    header = bool(re.search(price_words("headers")[field], plain(name)))
    cells = _cells(name, rows)
    if not cells:
        return 0.0
    fits = sum(_fits(field, cell, book) for cell in cells) / len(cells)
    if field in ("price", "spot"):
        return _price_score(field, name, fits, header=header)
    if re.search(price_words("headers_not").get(field, r"^$"), plain(name)):
        return 0.0
    if field in ("currency", "unit"):
        return fits + 0.5 * header if fits == 1 else 0.0
    if field in ("gpu", "region", "market"):  # cells decide, headers help
        if field == "region" and header and fits <= 0.2:
            return 0.1  # names of a provider's own, which are asked for
        return 0.0 if fits <= MOST and not (header and fits > 0.2) else fits + 0.5 * header
    return fits + 0.5 if header and fits > MOST else 0.0


def _price_score(field: str, name: str, fits: float, *, header: bool) -> float:
    words, markets, other = plain(name), price_words("markets"), price_words("headers_not")
    if fits <= MOST or re.search(markets["commitment"], words):
        return 0.0
    fits -= 0.25 * bool(re.search(price_words("price")["taxed"], words))
    is_spot = bool(re.search(price_words("headers")["spot"], words))
    if field == "spot":
        strange = any(re.search(other[name], words) for name in ("price", "spot"))
        return fits if is_spot and not strange else 0.0
    if is_spot or re.search(other["price"], words):
        return 0.0
    priced = header or bool(currency_in(name))
    told = priced or bool(time_in(name))
    demand = bool(re.search(markets["on_demand"], words))
    return fits + 0.5 * demand + 0.25 * priced if told else 0.0


def _fits(field: str, cell: str, book: Catalog) -> bool:
    if field == "gpu":
        return device_in(cell, book) is not None
    looks_like = _LOOKS.get(field)
    return any(c.isalpha() for c in cell) if looks_like is None else bool(looks_like(cell))


def market_in(cell: str) -> str | None:
    """Return the market that a cell names, or ``commitment``; None for neither.

    >>> [market_in(c) for c in ("On-Demand", "Spot", "36 Monate", "Preemptible", "gold")]
    ['on_demand', 'spot', 'commitment', 'spot', None]
    """
    return named_in(plain(cell), "markets")


_LOOKS: Mapping[str, Callable[[str], object]] = {
    "region": is_place,
    "currency": lambda cell: len(cell) <= 4 and number_in(cell) is None and currency_in(cell),
    "unit": lambda cell: currency_in(cell) is None and hours_in(cell) is not None,
    **dict.fromkeys(("price", "spot", "vcpus", "memory", "vram"), number_in),
    "market": lambda cell: (
        market_in(cell) == "commitment"
        or (number_in(cell) is None and market_in(cell) in ("spot", "on_demand"))
    ),
    "count": re.compile(r"[1-9][0-9]?(?:\s*x)?").fullmatch,
}
"""What tells a cell of a field; others have letters."""


def _why(field: str, name: str, rows: Rows, book: Catalog) -> str:
    """Say what tells a column: a word of its header, and how many of its cells fit."""
    match = re.search(price_words("headers")[field], plain(name))
    cells = _cells(name, rows)
    fits = sum(_fits(field, cell, book) for cell in cells)
    word = "" if match is None else f"'{match[0]}' in its header; "
    return f"{word}{fits} of {len(cells)} cells fit"


def _check_alike(price: Guess, spot: Guess) -> None:
    """Refuse two columns of prices whose headers name unlike currencies, times or sizes: what is
    said of one is taken for both.
    """
    for word_in in (currency_in, time_in, each_in):
        said = [word_in(guess.column or "") for guess in (price, spot)]
        if None not in said and said[0] != said[1]:
            units = " and ".join(map(str, said))
            raise PlacerError(
                f"'{price.column}' and '{spot.column}' are prices of {units}",
                "leave one of the two columns out of the list",
            )


def _currency(column: str, rows: Rows) -> Guess:
    in_cells = [currency for cell in _cells(column, rows) if (currency := currency_in(cell))]
    if in_cells:
        several = sorted({*in_cells})
        return Guess(column, None, f"{', '.join(several)} in the cells of '{column}'")
    if (said := currency_in(column)) is not None:
        return Guess(None, said, f"in the header '{column}'")
    raise PlacerError(f"nothing says in which currency '{column}' is", "--columns currency=EUR")


def _time_is_said(found: Mapping[str, Guess], rows: Rows) -> bool:
    """Tell whether prices say themselves for how long they are: what is billed once a month may
    have a price of an hour.
    """
    column = (found.get("price") or found.get("spot") or Guess("", None, "")).column or ""
    return time_in(column) is not None or any(
        time_in(row[column]) is not None for row in rows if column
    )


def _unit(column: str, rows: Rows) -> Guess:
    said = {time for cell in _cells(column, rows) if (time := time_in(cell))}
    if len(said) == 1:
        return Guess(None, said.pop(), f"in the cells of '{column}'")
    hours = hours_in(column)
    if hours is not None and not said:
        time = next((name for name in HOURS if HOURS[name] == hours), f"{hours:g} hours")
        return Guess(None, time, f"in the header '{column}'")
    raise PlacerError(
        f"nothing says for how long a price of '{column}' is",
        "--columns unit=hour, or day, month, year",
    )


def _decimals(column: str, rows: Rows) -> Guess:
    numbers = [number for cell in _cells(column, rows) if (number := number_in(cell))]
    sign: Decimals | None = decimals_of(numbers)
    if sign is not None:
        return Guess(None, sign, f"as the numbers of '{column}' are written")
    odd = next(number for number in numbers if decimals_of([number]) != "point" or "." in number)
    raise PlacerError(
        f"'{odd}' of '{column}' may be read with a decimal comma or a decimal point",
        "--columns decimals=comma, or decimals=point",
    )


def _per(column: str, found: Mapping[str, Guess], rows: Rows, book: Catalog) -> Guess:
    """Tell whether prices are of one GPU or of a machine: by words, or because no machine has
    several.
    """
    said = {each for cell in _cells(column, rows) if (each := each_in(cell))}
    if len(said) == 1:
        return Guess(None, said.pop(), f"in the cells of '{column}'")
    each = each_in(column)
    if each is not None and not said:
        return Guess(None, each, f"in the header '{column}'")
    unit = found["unit"].column
    of_unit = {each for cell in _cells(unit, rows) if (each := each_in(cell))} if unit else set()
    if len(of_unit) == 1:
        return Guess(None, of_unit.pop(), f"in the cells of '{unit}'")
    sizes = list(_sizes(column, found, rows, book))
    if all(count == 1 for _, count, _ in sizes):
        return Guess(None, "machine", "each machine has one GPU")
    if (grown := _grown(sizes)) is not None:
        each, why = grown
        return Guess(None, each, why)
    raise PlacerError(
        f"nothing says whether a price of '{column}' is of one GPU or of a whole machine",
        "--columns per=gpu, or per=machine",
    )


Size = tuple[tuple[str, str], int, float]
"""A device in a market, how many of it a machine has, and what the list asks for it."""


def _sizes(column: str, found: Mapping[str, Guess], rows: Rows, book: Catalog) -> Iterator[Size]:
    """Yield each row that has a device and a price."""
    market = found.get("market", Guess(None, "", "")).column
    decimals = found["decimals"].value
    for row in rows:
        device = device_in(row[found["gpu"].column or ""], book)
        usd = amount(row[column], "comma" if decimals == "comma" else "point")
        if device is not None and usd:
            kind = device.gpu, row[market] if market else ""
            yield kind, count_of(row, found, device.number), usd


def _grown(sizes: Sequence[Size]) -> tuple[str, str] | None:
    """Tell what prices are of by machines of one device with several sizes: the price of a machine
    grows with their number, that of a GPU hardly changes. None where neither is plain.
    """
    ratios = [
        (count / least, usd / low)
        for kind in {kind for kind, _, _ in sizes}
        for least, low in [min((count, usd) for other, count, usd in sizes if other == kind)]
        for other, count, usd in sizes
        if other == kind and count > least
    ]
    if ratios and all(NEAR * more <= dearer <= more / NEAR for more, dearer in ratios):
        return "machine", "prices grow with the number of GPUs"
    if ratios and all(NEAR <= dearer <= 1 / NEAR for more, dearer in ratios):
        return "gpu", "prices do not grow with the number of GPUs"
    return None


def count_of(row: Mapping[str, str], found: Mapping[str, Guess], in_cell: int | None) -> int:
    """Return the number of devices of a row: by its column, its device's cell, its machine's name;
    1 where none says it, which makes a machine dearer, never cheaper.
    """
    guess = found.get("count")
    if guess is not None and guess.value is not None:
        return int(guess.value)
    number = None if guess is None else number_in(row[guess.column or ""])
    return int(number) if number else in_cell or 1
