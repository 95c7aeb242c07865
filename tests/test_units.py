"""Quantities: what is read, what is refused, what is printed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placer.units import (
    format_bandwidth,
    format_bytes,
    format_parameters,
    format_seconds,
    format_usd,
    parse_bandwidth,
    parse_budget,
    parse_bytes,
)


@pytest.mark.parametrize("text", ["5/h", "$5/h", "5 /h", "5 usd/h", "120/day", "5.0/hour"])
def test_budget_spellings_mean_five_dollars_an_hour(text: str) -> None:
    """120 a day is 5 an hour."""
    assert parse_budget(text) == 5.0


@given(st.floats(min_value=1e-3, max_value=1e6))
def test_budget_reads_back_what_it_prints(value: float) -> None:
    """Any printed amount is read as the same amount, to the printed digits."""
    assert math.isclose(parse_budget(f"{value:.6f}/h"), value, rel_tol=1e-3)


@given(st.floats(min_value=1, max_value=1e14))
def test_bytes_print_to_three_digits(value: float) -> None:
    """Reading the printed size comes within half a percent."""
    assert math.isclose(parse_bytes(format_bytes(value)), value, rel_tol=0.006)


@given(st.floats(min_value=1e3, max_value=1e11))
def test_bandwidth_prints_bits(value: float) -> None:
    """Bytes per second are printed as bits per second and read back."""
    assert math.isclose(parse_bandwidth(format_bandwidth(value)), value, rel_tol=0.006)


def test_printing_keeps_small_amounts_and_zero() -> None:
    """A tenth of a cent is not $0.00."""
    assert (format_usd(0.0), format_usd(0.001), format_usd(1234.5)) == (
        "$0.00",
        "$0.001",
        "$1,234.50",
    )
    assert (format_seconds(0), format_seconds(0.0667)) == ("0 ms", "66.7 ms")


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        (33, "33"),
        (9_610, "9.61 k"),
        (272_474, "272 k"),
        (999_999, "1,000 k"),
        (11_689_512, "11.7 M"),
        (560_142_482, "560 M"),
        (7_241_732_096, "7.24 B"),
        (9 * 10**10, "90 B"),
    ],
)
def test_no_model_has_0_million_parameters(parameters: int, says: str) -> None:
    """Three digits; millions only from one million on, billions from one billion on."""
    assert format_parameters(parameters) == says
