"""``placer capacity import``: a table of your own from what providers say, or from a log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack

import msgspec

from placer.cli.book.harvest import finish, say_rest
from placer.cli.command import Json, as_command
from placer.cli.output import print_json, say, write_csv
from placer.cli.screen.show import show
from placer.errors import PlacerError, unknown
from placer.market.books.book_reader import over_default
from placer.market.books.folders import check_book_name
from placer.market.books.layers import catalog_names
from placer.market.catalog import Catalog
from placer.market.launch_log import read_launch_log, region_of
from placer.market.sources.capacity import quotas
from placer.market.sources.capacity.answers import (
    Asked,
    answer_harvest,
    ask_aws,
    ask_google,
    ask_quotas,
    block_offers,
    machine_of,
    read_answer,
    read_json_answer,
)
from placer.market.sources.capacity.own_launches import launches_harvest
from placer.market.sources.harvest import Harvest, Origin
from placer.market.sources.reading.fetch import read_document
from placer.market.sources.save import merged

KINDS = {
    "log": "aws, azure or gcp",
    "gcp-advice": "gcp",
    "aws-scores": "aws",
    "aws-blocks": "aws",
    "aws-plans": "aws",
    "aws-quotas": "aws",
    "gcp-quotas": "gcp",
    "azure-quotas": "azure",
}
"""What can be imported, and of which provider."""
BLOCKS = ("aws-blocks", "aws-plans")
EPILOG = """\b
Examples:
  placer capacity import log --from launches.csv --machine a3-highgpu-8g --provider gcp
  placer capacity import gcp-advice --machine a3-highgpu-8g --machines 8 --zone us-central1-a
  placer capacity import aws-quotas --from quotas.json --in us-east-1 -o quota.csv
  placer capacity import gcp-quotas --from region.json -o quota.csv
"""


class Options(TypedDict):
    """Options of the command.

    file (FILE, --from): A log, or an answer that was saved as JSON.
    machine (TYPE): Machine type that the answer is about.
    machines (1..1000000): Machines that were asked for.
    region (REGION, --in): Region of the provider.
    zone (ZONE): Zone of the provider.
    provider: log: whose zones they are.
    project (ID): gcp: your project.
    hours (1..8760): aws-blocks, aws-plans: how long.
    catalog (NAME|DIR|CSV): Price books with machines.
    name (--as): Name of the book.
    output (FILE, -o --output): Quotas, blocks and plans: the file.
    dry_run: Read and check, write nothing.
    """

    file: str | None
    machine: str | None
    machines: int | None
    region: Annotated[str, ""]
    zone: Annotated[str, ""]
    provider: Annotated[str, "gcp"]
    project: Annotated[str, ""]
    hours: Annotated[int, 24]
    catalog: tuple[str, ...]
    name: Annotated[str, "capacity"]
    output: str | None
    dry_run: bool
    as_json: Json


@as_command("import", EPILOG)
def import_command(kind: str, **options: Unpack[Options]) -> None:
    """Make rows of capacity of your own, laid over those that the book has.

    KIND is log, gcp-advice, aws-scores, aws-blocks, aws-plans, aws-quotas, gcp-quotas or
    azure-quotas. Without --from the provider is asked: Google Cloud with an access token in
    PLACER_GCP_ACCESS_TOKEN, AWS with boto3 and your own credentials. Quotas become a file for
    --quota, in vCPUs or GPUs as the cloud states them and less what runs already; those of Google
    Cloud and Azure need --from, with what 'gcloud compute regions describe', 'gcloud compute
    project-info describe' or 'az vm list-usage' prints as JSON. Blocks and plans that can be bought
    become a list of their own.

    kind (KIND):
    """
    if kind not in KINDS:
        raise unknown("kind of capacity", kind, KINDS)
    book, _ = over_default(options["catalog"])
    if kind.endswith("-quotas"):
        _quotas(kind, book, options)
    elif kind in BLOCKS:
        _blocks(kind, book, options)
    else:
        _rows(kind, book, options)


def _rows(kind: str, book: Catalog, options: Options) -> None:
    name = check_book_name(options["name"], catalog_names())
    if kind == "log":
        found = _log(book, options)
    else:
        asked = _asked(kind, book, options)
        document, origin = _answer(kind, asked, options)
        found = answer_harvest(kind, document, asked, book, origin)
    words = [f"{len(rows):,} rows of {file}" for file, rows in found.rows.items()]
    if not any(found.rows.values()):
        say_rest(found.left_out, found.notes)
        raise PlacerError("the answer has no row for a book", "nothing was written", exit_code=7)
    finish(
        merged(found, name),
        name,
        (),
        words=words,
        commands=("placer capacity show",),
        dry_run=options["dry_run"],
        as_json=options["as_json"],
    )


def _log(book: Catalog, options: Options) -> Harvest:
    if not options["file"]:
        raise PlacerError("which log?", "give --from FILE, as for placer capacity forecast")
    if not options["machine"]:
        raise PlacerError("which machine was launched?", "give --machine TYPE")
    machine = machine_of(book, options["provider"], options["machine"])
    path = Path(options["file"])
    log = read_launch_log(path, options["machines"])
    origin = read_document(str(path)).origin
    return launches_harvest(log, options["provider"], machine.gpu, book, origin)


def _asked(kind: str, book: Catalog, options: Options) -> Asked:
    provider, zone = KINDS[kind], options["zone"]
    if not options["machine"]:
        raise PlacerError("which machine is it about?", "give --machine TYPE")
    if options["machines"] is None:
        raise PlacerError("how many machines were asked for?", "give --machines N")
    region = options["region"] or (region_of(zone) if zone else "")
    if not region and not options["file"]:
        raise PlacerError("where?", "give --in REGION")
    if region:
        book.region(f"{provider}/{region}")
    return Asked(
        offer=machine_of(book, provider, options["machine"]),
        machines=options["machines"],
        as_of=datetime.now(UTC).date(),
        region=region,
        zone=zone,
    )


def _answer(kind: str, asked: Asked, options: Options) -> tuple[dict[str, Any], Origin]:
    if options["file"]:
        return read_answer(options["file"])
    if KINDS[kind] == "aws":
        return ask_aws(kind, asked, options["hours"])
    return ask_google(options["project"], asked)


def _quotas(kind: str, book: Catalog, options: Options) -> None:
    rows, left_out = _stated(kind, book, options)
    lines = [quotas.QuotaRow.__struct_fields__, *map(msgspec.structs.astuple, rows)]
    path = _written(options, lines)
    if options["as_json"]:
        named = msgspec.to_builtins(rows)
        document = {"schema": "placer.import-quotas/v1", "file": path, "rows": named}
        print_json({**document, "left_out": dict(left_out)})
        return
    for row in rows:
        say(row.words, whole=True)
    say_rest(left_out, ())
    if path is not None:
        say(f"next: placer recommend --model roberta-xlm --quota {path}", whole=True)


def _stated(kind: str, book: Catalog, options: Options) -> quotas.Found:
    region, file = options["region"], options["file"]
    if kind != "gcp-quotas" and not region:
        raise PlacerError("quotas of which region?", "give --in REGION")
    if not file and kind != "aws-quotas":
        tip = "give --from FILE with the JSON that gcloud or az prints"
        raise PlacerError("which answer?", tip)
    document, origin = read_json_answer(file) if file else ask_quotas(region)
    if kind == "gcp-quotas":
        return quotas.gcp_quotas(document, book, origin.place)
    read = quotas.aws_quotas if kind == "aws-quotas" else quotas.azure_quotas
    return read(document, region, book, origin.place)


def _blocks(kind: str, book: Catalog, options: Options) -> None:
    any_machine = next(o.instance_type for o in book.offers if o.provider == "aws")
    asked = _asked(kind, book, {**options, "machine": options["machine"] or any_machine})
    document, origin = _answer(kind, asked, options)
    blocks, left_out = block_offers(kind, document, book, origin.place)
    rows = msgspec.to_builtins(blocks)
    path = _written(options, [[*rows[0]], *([*row.values()] for row in rows)]) if rows else None
    document = {"schema": "placer.import-blocks/v1", "file": path, "blocks": rows}
    show(document, as_json=options["as_json"])
    if not options["as_json"]:
        say_rest(left_out, ())


def _written(options: Options, lines: Sequence[Sequence[object]]) -> str | None:
    """Write a CSV file where one is named and this is no dry run, and return its name."""
    path = None if options["dry_run"] else options["output"]
    if path is not None:
        write_csv(path, lines)
    return path
