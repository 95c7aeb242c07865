"""``placer try``: a question asked of any price list."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placer.cli.ask.recommend import command as recommend_command
from placer.cli.ask.recommend import question_option
from placer.cli.command import Json, Saved, as_command
from placer.cli.output import check_targets, screen_width, tell
from placer.errors import PlacerError
from placer.interface.advisor import recommend
from placer.units import format_usd

if TYPE_CHECKING:
    from placer.market.sources.guessed.book import PriceList

EXAMPLE = """\b
Examples:
  placer try prices.csv --model roberta-xlm --budget 20/h
  placer try preise.csv --yes --columns price=Preis,per=gpu --model llama-3.1-8b --budget 100/h
  placer try prices.csv --yes --rate BRL=0.18 --columns region=Recife --model resnet50 --budget 5/h
  placer try prices.csv --yes --catalog default --as nordkarte --model roberta-xlm --budget 20/h
"""
OWN = "own-"
"""What stands before a list's name that is a provider's of the book."""


@question_option
@as_command("try", EXAMPLE, of=recommend, without=["alternatives"])
def command(
    ctx: click.Context,
    prices: str,
    *,
    model: str,
    yes: bool = False,
    columns: tuple[str, ...] = (),
    rate: tuple[str, ...] = (),
    name: str | None = None,
    catalog: tuple[str, ...] = (),
    certificate: bool = False,
    manifest: str | None = None,
    output: Saved,
    as_json: Json,
    **words: Any,
) -> None:
    """Ask a question of a price list of any provider, in any currency, with any names of columns.

    PRICES.CSV needs a column with GPUs and one with prices; it may be a list of JSON, too, and a
    search of Vast.ai is known. Which column is which is guessed from
    headers and cells, shown and confirmed. What counts and is not said is asked for: the currency,
    for how long and for how many GPUs a price is, and the place. Bytes that leave are priced as the
    dearest large cloud near by bills them, where --columns egress=0.01 does not say it. Only
    machines of the list are asked for, unless --catalog or --in name others. The other options are
    those of 'placer recommend'.

    prices (PRICES.CSV):
    yes: Take the columns as they are guessed.
    columns (FIELD=NAME,..): A column of the list, or a value for all rows, by field: gpu, count,
        price, spot, currency, unit, per, region, market, vcpus, memory, vram, machine, decimals or
        egress; or a city by the name that the list has for a place.
    rate (CUR=USD): What one unit of a currency is in USD; default: a dated rate, if there is one.
    name (NAME, --as): Keep the list as a book of this name; default: it is forgotten.
    catalog (NAME|DIR|CSV): Books to ask too, such as default.
    certificate: As in 'placer recommend'.
    manifest (FILE): Write the launch manifest as JSON.
    """
    from placer.market.books.book_reader import load_catalog
    from placer.market.books.layers import DEFAULT_CATALOG
    from placer.market.sources.guessed.book import harvest_of, read_list
    from placer.market.sources.save import save, temporary
    from placer.market.words.money import rates_given

    check_targets(output, manifest)
    book = load_catalog(DEFAULT_CATALOG)
    rates = rates_given(rate)
    found = read_list(prices, _pairs(columns), book)
    provider = (
        name
        or found.provider
        or _name_of(prices, {region.provider for region in book.regions.values()})
    )
    harvest = harvest_of(found, provider, rates, book)
    _tell_guesses(found)
    first = harvest.rows["offers.csv"][0]
    tell(
        f"so {first['instance_type']} with {first['gpu_count']} x {first['gpu']} in "
        f"{first['region']} costs {format_usd(float(first['usd_per_hour'] or 0))}/h "
        f"{str(first['market']).replace('_', '-')}"
    )
    for sentence in (*harvest.notes, *_counted(harvest.left_out)):
        tell(sentence)
    confirm(yes=yes or bool(found.about))
    kept = nullcontext(save(harvest, provider)) if name else temporary(harvest, provider)
    with kept as folder:
        if not (catalog or words.get("places")):
            words["places"] = (f"{provider}/*",)
        layers = (*(catalog or (DEFAULT_CATALOG,)), str(provider if name else folder))
        ctx.invoke(
            recommend_command,
            model=model,
            catalog=layers,
            output=output,
            certificate=certificate,
            manifest=manifest,
            as_json=as_json,
            **words,
        )


def _pairs(words: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    # A comma before a pair ends the one before; others are part of a name, such as 'Texas, US'.
    split = re.compile(r"(?:\A|,)([^=]*=[^=,]*|[^=]*\Z)")
    for word in (part for text in words for part in split.findall(text)):
        field, equals, column = (part.strip() for part in word.partition("="))
        if not (field and equals and column):
            raise PlacerError(
                f"--columns '{word}' is not a pair", "write it as --columns price=Preis,per=gpu"
            )
        if field in pairs:
            raise PlacerError(f"--columns '{field}' is given twice", "give it once")
        pairs[field] = column
    return pairs


def _name_of(path: str, providers: set[str]) -> str:
    """Name a provider after its file, in 40 characters at most.

    >>> [len(_name_of("a" * 50 + ".csv", taken)) for taken in (set(), {"a" * 50})]
    [40, 40]
    """
    stem = re.sub(r"[^a-z0-9]+", "-", Path(path).stem.lower()).strip("-") or "list"
    return f"{OWN}{stem}"[:40] if stem in providers or not stem[0].isalpha() else stem[:40]


def _tell_guesses(found: PriceList) -> None:
    """Show on stderr which column was read as what, with an example and why."""
    if found.about:
        tell(f"read as {found.about}")
        return
    from placer.report.blocks import table
    from placer.report.draw.terminal import block_lines

    rows = []
    for field, guess in found.guesses.items():
        cells = (row[guess.column] for _, row in found.rows) if guess.column else iter(())
        example = next((cell for cell in cells if cell), "")
        rows.append([field, guess.column or "all rows", guess.value or example, guess.why])
    made = table("", ("read as", "column", "such as", "because"), rows, narrowed=("because",))
    for line in block_lines(made, screen_width(sys.stderr)) if made else ():
        tell("".join(text for text, _ in line).rstrip(), whole=True)
    unread = [
        name for name in found.names if name not in {g.column for g in found.guesses.values()}
    ]
    if any(unread):
        tell(f"not read: {', '.join(filter(None, unread))}")


def _counted(left_out: Mapping[str, int]) -> list[str]:
    return [f"left out: {count:,} x {reason}" for reason, count in left_out.items()]


def confirm(*, yes: bool) -> None:
    """Ask on a terminal whether the columns are right; without one --yes must say it."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise PlacerError(
            "nobody confirmed how the list is read",
            "add --yes where the table above is right, or correct it with --columns FIELD=NAME",
        )
    if not click.confirm("Is this right?", err=True):
        raise PlacerError(
            "the list is read otherwise", "correct it, such as --columns price=Preis,per=gpu"
        )
