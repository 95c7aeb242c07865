"""``placer capacity``: what zones launch and keep, and policies on it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from placer.cli.book.harvest import print_findings
from placer.cli.command import Json, Saved, Table, as_command
from placer.cli.output import check_targets, print_json, say, write_json
from placer.cli.screen.show import show
from placer.cli.screen.streams import has_reader
from placer.interface.replay import forecast_capacity, replay, watch
from placer.units import SECONDS_PER_HOUR, counted, format_duration, format_usd

if TYPE_CHECKING:
    from placer.advice.policy.watch import Change

SHOW = """\b
Examples:
  placer capacity show --gpu H100
  placer capacity show --catalog default --catalog capacity --in gcp/us-central1
"""


@as_command("show", SHOW)
def show_command(
    *,
    catalog: tuple[str, ...] = (),
    gpu: str | None = None,
    place: str | None = None,
    market: str = "spot",
    as_json: Table,
) -> None:
    """Show how often one zone launches at least so many machines, and how long they stay together.

    Rows of a zone win over those of its region, and these over class rows, in which * is every
    provider or device.

    catalog (NAME|DIR|CSV): Price books, as in offers.
    gpu (NAME): Only rows that are about this device.
    place (PLACE, --in): Only rows that are about this place.
    market: spot, on-demand or any.
    """
    from placer.market.books.book_reader import over_default
    from placer.market.capacity_table import capacity_document
    from placer.market.words.selection import ASKED_MARKETS, gpus_of

    book, _ = over_default(catalog)
    wanted = market.replace("-", "_")
    if wanted not in ASKED_MARKETS:
        from placer.errors import unknown

        raise unknown("market", market, ASKED_MARKETS)
    gpus = None if gpu is None else {"*", *gpus_of(gpu, book)}
    where = None if place is None else book.region(place)
    rows = [
        row
        for row in book.capacity
        if (gpus is None or row.device in gpus)
        and wanted in ("any", row.market)
        and (
            where is None
            or (row.provider in ("*", where.provider) and row.region in ("", where.region))
        )
    ]
    document = {"schema": "placer.capacity/v1", "catalog": book.name}
    show({**document, "rows": [capacity_document(row) for row in rows]}, as_json=as_json)


SHOWN = 20
"""Doubts that are printed; --json has all."""


@as_command("check", "Example: placer capacity check default my-capacity.csv")
def check_command(ctx: click.Context, names: tuple[str, ...] = (), *, as_json: Table) -> None:
    """Check every row of capacity, and count the spot machines of the book that it knows.

    A partial book is put on top of the default one. A row that no table may have is refused with
    its file and line; shares of a zone that are out of date are a warning. The exit code is 2 if
    there is an error.

    names (NAME|DIR|CSV...):
    """
    from datetime import UTC, datetime

    import msgspec

    from placer.market.books.book_reader import devices, located_rows, over_default
    from placer.market.checks.doubts import covered, wrong_dates

    book, layers = over_default(names)
    rows = located_rows([devices(), *layers])["capacity.csv"]
    found = tuple(wrong_dates(rows, datetime.now(UTC).date()))
    errors = sum(finding.level == "error" for finding in found)
    known = covered(book)
    if as_json:
        document = {
            "schema": "placer.capacity-check/v1",
            "catalog": book.name,
            "rows": len(book.capacity),
            "own_rows": len(rows),
            "valid": not errors,
            "spot_machines": known,
        }
        print_json({**document, "findings": msgspec.to_builtins(found)})
        ctx.exit(2 if errors else 0)
    print_findings(found, SHOWN, "--json has all")
    verdict = f"{errors} errors" if errors else "valid"
    say(
        f"{verdict}: catalog {book.name}: {len(book.capacity):,} rows of capacity, "
        f"{len(rows):,} of its own and {len(book.capacity) - len(rows):,} that come with placer"
    )
    counts = ", ".join(f"{count:,} {words}" for words, count in known.items())
    say(f"spot machines by place and device: {counts or 'none'}")
    ctx.exit(2 if errors else 0)


FORECAST = """\b
Example:
  placer capacity forecast launches.csv --machines 16 --ahead 6h
"""


@as_command("forecast", FORECAST, of=forecast_capacity)
def forecast_command(log: str, *, as_json: Table, **words: Any) -> None:
    """Forecast from a log of launches how likely zones have enough machines.

    LOG is a CSV file with a column utc and one for each zone: the machines that were launched,
    empty where nobody asked.
    """
    found = forecast_capacity(log, **words)
    show(found.to_dict(), as_json=as_json)


REPLAY = """\b
Examples:
  placer capacity replay trace.csv --machines 16 --work 24h --slack 25% --gpu H100
  placer capacity replay trace.csv --machines 16 --work 24h --deadline 30h --prices prices.csv
  placer capacity replay trace.csv --machines 8 --work 2d --slack 10% --gpu V100 --policy span

\b
TRACE is a log of launches as in 'placer capacity forecast': a column utc and one for each zone.
Every policy begins at many times of the trace and ends with on-demand machines where the slack
would not cover one more restart: none misses a deadline. It is assumed that
on-demand machines are always available.
"""


@as_command("replay", REPLAY, of=replay)
def replay_command(trace: str, *, output: Saved, as_json: Json, **words: Any) -> None:
    """Run policies over a TRACE of capacity: what each pays to finish by the deadline."""
    check_targets(output)
    document = replay(trace, **words).to_dict()
    if output is not None:
        write_json(output, document)
        click.echo(f"wrote the replay to {output}", err=True)
    show(document, as_json=as_json)


WATCH = """\b
Examples:
  placer capacity watch plan.json launches.csv --work 24h --deadline 30h
  tail -f launches.csv | placer capacity watch plan.json - --work 24h --slack 25%

\b
FEED is a log of launches that is read as it is written: a file, a folder of files, or - for the
output of a command. Spot machines are held in up to four zones as by 'placer capacity replay
--policy span', and each action is printed with what it costs. Nothing is rented: it says what to
do.
"""


@as_command("watch", WATCH, of=watch)
def watch_command(manifest: str, feed: str, *, as_json: Json, **words: Any) -> None:
    """Follow what zones launch for the plan of MANIFEST, and say which machines to hold."""
    last = None
    for last in watch(manifest, feed, **words):
        line = json.dumps(last.to_dict(), allow_nan=False) if as_json else change_line(last)
        click.echo(line)
        sys.stdout.flush()
        if not has_reader(sys.stdout):  # a feed may have no end
            return
    click.echo(closing_line(last), err=True)


def change_line(change: Change) -> str:
    """Say what a tick changes, each action with its cost, and how the job stands."""
    actions = []
    for one in change.actions:
        where = one.place if one.from_ is None else f"{one.from_} -> {one.place}"
        cost = f" ({format_usd(one.usd)})" if one.usd else ""
        actions.append(f"{one.action} {one.machines} {where}{cost}")
    done = "; ".join(actions) or "all stays"
    return f"{change.utc[:16].replace('T', ' ')}  {done}  |  {_standing(change)}"


def _standing(change: Change) -> str:
    if change.latest_on_demand is None:
        return f"the work is done for {format_usd(change.usd)}"
    held, latest = sum(change.held.values()), change.latest_on_demand[5:16].replace("T", " ")
    good = ", on-demand for good" if change.on_demand_for_good else ""
    if not held:
        return f"nothing held, slack {_hours(change.slack_hours)}, on-demand from {latest}"
    return (
        f"{counted(held, 'machine')} for {format_usd(change.usd_per_hour)}/h, slack "
        f"{_hours(change.slack_hours)}{good or f', on-demand from {latest} if nothing works'}"
    )


def _hours(hours: float) -> str:
    """Write hours, also those that lack.

    >>> _hours(2.0), _hours(-0.5)
    ('2 h', '-30 min')
    """
    sign = "-" if hours < 0 else ""
    return f"{sign}{format_duration(abs(hours) * SECONDS_PER_HOUR)}"


def closing_line(last: Change | None) -> str:
    """Say how the job stands when the feed ends."""
    if last is None:
        return "the feed ended: nothing changed"
    if last.finished:
        return "the work is done"
    held = ", ".join(f"{count} {place}" for place, count in last.held.items()) or "nothing"
    return f"the feed ended: {held} held, {_hours(last.done_hours)} of work done"
