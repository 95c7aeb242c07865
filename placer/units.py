"""Parse and print quantities: one small grammar, SI inside (seconds, bytes, bytes/s, USD).

``b`` is a bit and ``B`` is a byte; K, M, G, T are decimal, Ki, Mi, Gi, Ti binary. A bare number is
refused wherever it could be misread.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal

from msgspec import Struct

from placer.errors import PlacerError

GIB = 2**30  # Bytes of the "GB" in egress and storage prices
SECONDS_PER_HOUR = 3600.0
HOURS_PER_MONTH = 730.0  # Hours that providers bill as one month (8,760 / 12)

_NUMBER = (
    r"(?P<number>[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?)"
)
_LARGEST, _SMALLEST = 1e15, 1e-9  # Quantities outside are slips of the keyboard
_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_COUNT_PREFIX = _PREFIX | {"B": 1e9}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_HOURS_OF = {
    **dict.fromkeys(("/h", "/hr", "/hour"), 1.0),
    **dict.fromkeys(("/d", "/day"), 24.0),
    **dict.fromkeys(("/mo", "/month"), HOURS_PER_MONTH),
}
_SECONDS_OF = {"s": 1, "sec": 1, "min": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}
_DURATION = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Interval(Struct, frozen=True, kw_only=True):
    """A value with a low and a high end."""

    value: float
    low: float
    high: float


SPEED_LEVEL = 0.9
"""Share of runs whose speed lies within its interval, at least: 59 of 63 public runs did, each
series left out in turn (docs/manual/accuracy.md).
"""
WIDE = 2.0  # An interval whose ends are further apart, as a ratio, decides no ranking


def is_wide(low: float, high: float) -> bool:
    """Return whether an interval is too wide to rank what it describes.

    >>> is_wide(981.0, 1_141.0), is_wide(3_273.0, 13_878.0)
    (False, True)
    """
    return high > WIDE * low


def parse_budget(text: str) -> float:
    """Read a budget in USD per hour, such as ``5/h``, ``120/day`` or ``3000/month`` of 730 h;
    PlacerError if the rate is ambiguous.

    >>> parse_budget("$5/h"), parse_budget("120/day"), parse_budget("3650/month")
    (5.0, 5.0, 5.0)
    """
    body = text.strip().removeprefix("$").strip()
    match = re.fullmatch(_NUMBER + r"\s*(?P<rest>.*)", body)
    if match is None:
        raise PlacerError(f"budget '{text}' is not an amount", "write it as 5/h or '$5/h'")
    rest = match["rest"].replace(" ", "").lower().replace("per", "/")
    hours = _HOURS_OF.get(rest.removeprefix("usd"))
    if rest == "":
        example = body if float(body) > 0 else "5"
        tip = f"write {example}/h for a rate, or add --samples N for a total of {example} USD"
        raise PlacerError(f"budget '{text}': per hour or total?", tip)
    if rest in ("total", "usd", "usdtotal"):
        words = f"budget '{text}' is a total without a number of samples"
        raise PlacerError(words, "add --samples N, or give a rate such as --budget 5/h")
    if hours is None:
        words = f"budget '{text}' has the unknown unit '{match['rest']}'"
        raise PlacerError(words, "write it as 5/h, 120/day or 3000/month")
    return _positive(text, "budget", float(match["number"]) / hours)


def parse_rate(text: str, tokens_per_sample: int | None = None) -> float:
    """Read a throughput in samples per second, such as ``400/s`` or ``1.2K/s``; of samples of some
    tokens also ``20Ktok/s``.

    >>> parse_rate("400/s"), parse_rate("36K/h"), parse_rate("8K tokens/s", 4096)
    (400.0, 10.0, 1.953125)
    """
    match = re.fullmatch(
        _NUMBER + r"\s*(?P<prefix>[kKMGB]?i?)\s*(?P<tokens>tok|tokens)?\s*/\s*(?P<per>[a-z]+)",
        text.strip(),
    )
    seconds = _SECONDS_OF.get(match["per"]) if match else None
    if match is None or seconds is None:
        words = f"throughput '{text}' is not samples per time"
        raise PlacerError(words, "write it as 400/s, or 20Ktok/s")
    prefix = match["prefix"].replace("B", "G")
    factor = _PREFIX.get(prefix) or _BINARY.get(prefix)
    if factor is None:
        words = f"throughput '{text}' has the unknown prefix '{match['prefix']}'"
        raise PlacerError(words, "use K, M or G")
    if match["tokens"] and tokens_per_sample is None:
        raise PlacerError(f"throughput '{text}' of a model without tokens", "write it as 400/s")
    each = tokens_per_sample if match["tokens"] and tokens_per_sample else 1
    return _positive(text, "throughput", float(match["number"]) * factor / seconds / each)


def parse_count(text: str, what: str = "count") -> int:
    """Read a whole positive number; ``32K`` is 32,000, ``32Ki`` is 32,768 and ``1B`` a billion.

    >>> parse_count("32Ki"), parse_count("32K"), parse_count("1,024")
    (32768, 32000, 1024)
    """
    body = (
        text.strip().replace(",", "")
        if re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+", text.strip())
        else text.strip()
    )
    match = re.fullmatch(_NUMBER + r"(?P<prefix>[kKMGBT]?i?)", body)
    prefix = match["prefix"] if match else "?"
    factor = _COUNT_PREFIX.get(prefix) or _BINARY.get(prefix)
    if match is None or factor is None:
        words = f"{what} '{text}' is not a number"
        raise PlacerError(words, "write it as 32768, 32K (32,000) or 32Ki (32,768)")
    value = _positive(text, what, float(match["number"]) * factor)
    if value != int(value):
        raise PlacerError(f"{what} '{text}' is not a whole number", "give a whole number")
    return int(value)


def parse_tokens(text: str, what: str = "tokens") -> int:
    """Read a whole number of tokens; ``10B`` and ``10G`` are 10,000,000,000.

    >>> parse_tokens("10B"), parse_tokens("4Mtok"), parse_tokens("1T tokens")
    (10000000000, 4000000, 1000000000000)
    """
    match = re.fullmatch(
        _NUMBER + r"(?P<prefix>[kKMGBT]?|[KMGT]i)\s*(tok|tokens)?", text.strip().replace(",", "")
    )
    prefix = match["prefix"].replace("B", "G") if match else ""
    if match is None:
        raise PlacerError(f"{what} '{text}' is not a number of tokens", "write it as 10B, 4M or 1T")
    value = _positive(text, what, float(match["number"]) * (_PREFIX | _BINARY)[prefix])
    if value != int(value):
        raise PlacerError(f"{what} '{text}' is not a whole number", "give a whole number")
    return int(value)


def parse_bytes(text: str) -> float:
    """Read a size in bytes, such as ``1.12GB``, ``1100 MB`` or ``16GiB``.

    >>> parse_bytes("1.5 KB"), parse_bytes("1KiB")
    (1500.0, 1024.0)
    """
    match = re.fullmatch(_NUMBER + r"\s*(?P<prefix>[kKMGT]?i?)B", text.strip())
    factor = None if match is None else _PREFIX.get(match["prefix"]) or _BINARY.get(match["prefix"])
    if match is None or factor is None:
        words = f"size '{text}' is not a number of bytes"
        raise PlacerError(words, "write it as 1.12GB, 1100MB or 16GiB")
    return _positive(text, "size", float(match["number"]) * factor)


def parse_bandwidth(text: str) -> float:
    """Read a bandwidth in bytes per second; ``b`` is bit, ``B`` is byte.

    >>> parse_bandwidth("250 Mb/s"), parse_bandwidth("1GB/s")
    (31250000.0, 1000000000.0)
    """
    match = re.fullmatch(
        _NUMBER + r"\s*(?P<prefix>[A-Za-z]*?)(?P<unit>[bB])(?:/s|ps)", text.strip()
    )
    if match is None:
        words = f"bandwidth '{text}' is not bits or bytes per second"
        raise PlacerError(words, "write it as 250Mb/s or 31MB/s")
    prefix = match["prefix"]
    if prefix in {"g", "m", "t"}:
        good = f"{match['number']}{prefix.upper()}{match['unit']}/s"
        tip = f"write {good} ({'bits' if match['unit'] == 'b' else 'bytes'} per second)"
        raise PlacerError(f"bandwidth '{text}' is ambiguous", tip)
    factor = _PREFIX.get(prefix) or _BINARY.get(prefix)
    if factor is None:
        words = f"bandwidth '{text}' has the unknown prefix '{prefix}'"
        raise PlacerError(words, "use K, M, G or T")
    return _positive(
        text, "bandwidth", float(match["number"]) * factor / (8 if match["unit"] == "b" else 1)
    )


def parse_seconds(text: str) -> float:
    """Read a duration in seconds, such as ``200ms``, ``90s``, ``15min`` or ``36h``.

    >>> parse_seconds("200ms"), parse_seconds("1.5h")
    (0.2, 5400.0)
    """
    match = re.fullmatch(_NUMBER + r"\s*(?P<unit>[a-z]+)", text.strip())
    factor = _DURATION.get(match["unit"]) if match else None
    if match is None or factor is None:
        words = f"duration '{text}' is not a time"
        raise PlacerError(words, "write it as 200ms, 90s, 15min, 36h or 3d")
    return _positive(text, "duration", float(match["number"]) * factor)


def parse_range(text: str, what: str = "workers", highest: int = 64) -> tuple[int, int]:
    """Read a range of whole numbers: ``4``, ``1..16``, ``8..`` or ``..16``; both ends count.

    >>> parse_range("1..16"), parse_range("4"), parse_range("8..", highest=32)
    ((1, 16), (4, 4), (8, 32))
    """
    match = re.fullmatch(
        r"\s*(?P<low>[0-9]{0,6})\s*(?:(?P<dots>\.\.)\s*(?P<high>[0-9]{0,6}))?\s*", text
    )
    if match is None or not (match["low"] or match["high"]):
        words = f"{what} '{text}' is not a range of whole numbers"
        raise PlacerError(words, "write it as 4, 1..16 or 8..")
    low = int(match["low"] or 1)
    high = int(match["high"] or (max(highest, low) if match["dots"] else low))
    if low < 1 or high < 1:
        raise PlacerError(f"{what} '{text}': at least 1 is needed", f"write {what} as 1..16")
    if low > high:
        words = f"{what} '{text}': the lower end is above the upper end"
        raise PlacerError(words, f"write it as {high}..{low}")
    return low, high


def parse_fraction(text: str, what: str, most: float = 0.5) -> float:
    """Read a share such as ``0.1%`` or ``0.001``, from 0 to ``most``.

    >>> parse_fraction("0.5%", "gap"), parse_fraction("0", "gap")
    (0.005, 0.0)
    """
    match = re.fullmatch(_NUMBER + r"(?P<percent>%?)", text.strip())
    value = float(match["number"]) / (100 if match["percent"] else 1) if match else math.nan
    if not 0 <= value <= most:
        words = f"{what} '{text}' is not a share from 0 to {100 * most:g} %"
        raise PlacerError(words, "write it as 5% or 0.05")
    return value


def parse_date(text: str, what: str) -> date:
    """Read an ISO date such as ``2026-08-03``."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise PlacerError(f"{what} '{text}' is not a date", "write it as YYYY-MM-DD") from None


def parse_moment(text: str, where: str, hint: str = "write it as 2026-11-24T12:00Z") -> datetime:
    """Read an ISO date and time; without a zone it is UTC. ``where`` says where it stands."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise PlacerError(f"{where}: '{text[:40]}' is not a time", hint) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def format_bytes(value: float) -> str:
    """Print bytes with a decimal prefix and three digits.

    >>> format_bytes(1_120_284_964), format_bytes(17e6), format_bytes(12)
    ('1.12 GB', '17 MB', '12 B')
    """
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{_digits(value / factor)} {prefix}B"
    return f"{_digits(value)} B"


def format_bandwidth(bytes_per_second: float) -> str:
    """Print bytes per second as bits per second, the way networks are quoted.

    >>> format_bandwidth(26_250_000), format_bandwidth(862_500_000)
    ('210 Mb/s', '6.9 Gb/s')
    """
    bits = bytes_per_second * 8
    return f"{_digits(bits / 1e9)} Gb/s" if bits >= 1e9 else f"{_digits(bits / 1e6)} Mb/s"


def format_usd(value: float) -> str:
    """Print dollars to the cent, and small amounts to two digits that count.

    >>> format_usd(4.8), format_usd(0.0021), format_usd(0)
    ('$4.80', '$0.0021', '$0.00')
    """
    if 0 < value < 1e-4:
        return "under $0.0001"
    if value and abs(value) < 0.095:
        digits = f"{value:.{1 - math.floor(math.log10(abs(value)))}f}".rstrip("0")
        return f"${digits}{'0' * (4 - len(digits))}"
    return f"${value:,.2f}"


def format_seconds(value: float) -> str:
    """Print a duration in the unit that keeps it readable.

    >>> format_seconds(0.05), format_seconds(31.2), format_seconds(600)
    ('50 ms', '31.2 s', '10 min')
    """
    if value < 1:
        return f"{_digits(value * 1e3)} ms"
    return f"{_digits(value)} s" if value < 300 else f"{_digits(value / 60)} min"


def format_duration(value: float) -> str:
    """Print a long duration in two units: days and hours, or hours and minutes.

    >>> [format_duration(seconds) for seconds in (11_520, 183_600, 43_200, 90)]
    ['3 h 12 min', '2 d 3 h', '12 h', '90 s']
    """
    if value < 300:
        return format_seconds(value)
    small, large, per = ("min", "h", 60) if value < 48 * SECONDS_PER_HOUR else ("h", "d", 24)
    count = round(value / (60.0 if small == "min" else SECONDS_PER_HOUR))
    parts = [
        f"{number:,} {unit}"
        for number, unit in ((count // per, large), (count % per, small))
        if number
    ]
    return " ".join(parts)


def format_number(value: float) -> str:
    """Print a plain number with three digits, thousands separated.

    >>> format_number(1084.7), format_number(12.34), format_number(0.5)
    ('1,085', '12.3', '0.5')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else _digits(value)


def format_rough(value: float) -> str:
    """Print a number that nobody measured: three digits that count, thousands separated.

    >>> format_rough(534_116.0), format_rough(8_163.0), format_rough(12.34)
    ('534,000', '8,160', '12.3')
    """
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 1000 else format_number(value)


def format_plain(value: float, digits: int = 3) -> str:
    """Print a number with so many digits that count, without an exponent or separators, so that it
    can be pasted.

    >>> format_plain(10_720.4, 4), format_plain(0.00071234), format_plain(57.0), format_plain(5e6)
    ('10720', '0.000712', '57', '5000000')
    """
    text = format(Decimal(f"{value:.{digits}g}"), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_tokens(value: float) -> str:
    """Print a number of tokens with three digits.

    >>> format_tokens(10**10), format_tokens(4_194_304), format_tokens(512)
    ('10 B tokens', '4.19 M tokens', '512 tokens')
    """
    for factor, unit in ((1e12, " T"), (1e9, " B"), (1e6, " M")):
        if value >= factor:
            return f"{_digits(value / factor)}{unit} tokens"
    return f"{value:,.0f} tokens"


def format_speed(samples_per_second: float, tokens_per_sample: float | None = None) -> str:
    """Print a speed: in tokens where samples are sequences of them.

    >>> format_speed(4778), format_speed(12.5, 8192)
    ('4,778 samples/s', '102,400 tokens/s')
    """
    speed = samples_per_second * (tokens_per_sample or 1)
    return f"{format_number(speed)} {speed_unit(tokens_per_sample)}"


def speed_unit(tokens_per_sample: float | None) -> str:
    """Return the unit of the speed of a model: tokens where samples are sequences of them."""
    return "samples/s" if tokens_per_sample is None else "tokens/s"


def format_parameters(value: int) -> str:
    """Print a number of parameters with three digits, in millions from one million on and in
    billions from one billion on.

    >>> format_parameters(8_030_261_248), format_parameters(560_142_482), format_parameters(33)
    ('8.03 B', '560 M', '33')
    """
    for factor, unit in ((1e9, " B"), (1e6, " M"), (1e3, " k")):
        if value >= factor:
            return f"{format_number(value / factor)}{unit}"
    return f"{value:,}"


def _digits(value: float) -> str:
    """Format three significant digits without an exponent or trailing zeros."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _positive(text: str, what: str, value: float) -> float:
    if not math.isfinite(value):
        raise PlacerError(f"{what} '{text}' is not finite", "give a finite number")
    if value <= 0:
        raise PlacerError(f"{what} '{text}' must be above zero", "give a positive amount")
    if not _SMALLEST <= value <= _LARGEST:
        words = f"{what} '{text}' is out of any reasonable range"
        raise PlacerError(words, "check the exponent and the unit")
    return value


def counted(number: int, word: str) -> str:
    """Write a number of things.

    >>> counted(1, "row"), counted(4515, "offer")
    ('1 row', '4,515 offers')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def counted_range(low: int, high: int, word: str) -> str:
    """Write a range of things, or one number where both ends are the same.

    >>> counted_range(1, 64, "worker"), counted_range(4, 4, "worker"), counted_range(1, 1, "region")
    ('1 to 64 workers', '4 workers', '1 region')
    """
    return counted(low, word) if low == high else f"{low:,} to {counted(high, word)}"
