"""What is frozen, by name: each golden is a function that makes its text anew."""

import ast
import difflib
import inspect
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from copy import deepcopy
from datetime import date
from functools import cache, partial
from io import StringIO
from itertools import groupby
from pathlib import Path
from textwrap import shorten
from typing import Any

import click
import frozen
import pytest
import solving

import placer
from conftest import ROOT
from goldens.commands import folder, laid_out, screen, short_digest
from goldens.measures import STARTS, modules
from placer.cli import run
from placer.cli.screen.option_groups import COMMON
from placer.errors import PlacerError
from placer.launch.export import TARGETS
from placer.market.books import book_reader
from placer.records import replace
from placer.report.blocks import Chart, Report, asides, tables_of
from placer.report.charts.drawing import specification
from placer.report.contents import KINDS, contents
from placer.report.draw.formats import as_csv, as_markdown
from placer.solving.answer import SolveOptions

ASKED = Path(__file__).parent / "asked"
FROZEN = Path(__file__).parent / "frozen"
TODAY = date(2026, 11, 28)
WIDTHS = (80, 100, 120)
QUICK_CPU_S = 0.15
"""Frozen instances that took less are solved again."""
UNSETTLED = ("doctor",)
"""Documents that say what is installed."""
MOST_ADDED = 12
"""Lines of a page that a change adds at one place; of those that it takes out, two are shown."""
DRAWN = (
    "comparison",
    "estimate-2",
    "pareto",
    "portfolio",
    "replan",
    "replay",
    "reproduction-2",
    "result",
    "robust",
    "simulation",
    "sweep",
)
"""Documents whose charts are frozen."""
TRAINED = {
    "torchtitan": "--train llama3:llama3_8b",
    "megatron": "--train megatron.bridge.recipes:llama32_1b_pretrain_config",
}
"""Options of export targets that do not take the usual script."""
Make = Callable[[], str]


def goldens() -> dict[str, Make]:
    """Name everything that is frozen, by its file in `frozen/`."""
    makes: dict[str, Make] = {}
    for name, words in asked("questions"):
        makes[f"questions/{name}.json"] = partial(question, words)
    for name, words in asked("screens"):
        makes[f"screens/{name}.txt"] = partial(screen, words, *WIDTHS)
    for name in instance_groups():
        makes[f"instances/{name}.txt"] = partial(instances, name)
    for name, (words, file) in documents().items():
        makes[f"documents/{name}.json"] = partial(document, words, file)
    for name in sorted(path.stem for path in (FROZEN / "documents").glob("*.json")):
        if viewed(name) is not None:
            makes[f"pages/{name}.md"] = partial(page, name)
    makes |= {f"charts/{name}.json": partial(charts, name) for name in DRAWN}
    makes["exports/manifests.txt"] = manifests
    for name in TARGETS:
        makes[f"exports/{name}.txt"] = partial(exported, name)
    for name in ("", *help_pages()):
        makes[f"help/{name or 'placer'}.txt"] = partial(help_of, name)
    for name in STARTS:
        makes[f"modules/{name}.txt"] = partial(modules, name)
    makes["mistakes.txt"] = mistakes
    makes["readings.txt"] = partial(calls, "readings")
    makes["refusals.txt"] = partial(calls, "refusals")
    makes["views.txt"] = partial(calls, "views")
    makes["answers.txt"] = partial(calls, "answers")
    makes["service.txt"] = partial(calls, "service")
    makes["limits.txt"] = partial(calls, "limits")
    makes["signatures.txt"] = signatures
    makes["openapi.json"] = openapi
    return makes


def made(name: str) -> str:
    """Make one output anew; a failure is one, so that the others are compared."""
    try:
        return goldens()[name]()
    except Exception as error:
        return f"could not be made: {type(error).__name__}: {error}\n"


def asked(kind: str) -> Iterator[tuple[str, str]]:
    """Read the names and commands of a file of `asked/`."""
    for line in (ASKED / f"{kind}.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, words = line.partition(" ")
            yield name, words.strip()


def question(words: str) -> str:
    """Ask for a placement: the answer as JSON, or what went wrong."""
    with folder() as here:
        done = here.run(f"recommend {words} --json")
        if not done.stdout:
            return here.plain(done.stderr)
        answer = json.loads(done.stdout)
        for key in ("alternatives", "baselines", "near_misses"):
            if key in answer:
                answer[key] = [brief(option) for option in answer[key]]
        return here.plain(laid_out(answer))


def brief(option: Mapping[str, Any]) -> dict[str, Any]:
    """Say in a few figures what was not chosen: most of an answer is this, once kept in whole in
    `documents/result.json`.
    """
    placement, estimate = option["placement"], option["estimate"]
    if placement is None or estimate is None:
        return {**option}
    workers = [f"{w['count']} x {w['offer']} {w['place']}" for w in placement["workers"]]
    return {
        "label": option["label"],
        "note": option["note"],
        "workers": " ".join([placement["exchange"], *workers]),
        "samples_per_second": estimate["samples_per_second"]["value"],
        "usd_per_hour": estimate["usd_per_hour"]["total"],
    }


def mistakes() -> str:
    """Give wrong input: exit codes and messages."""
    lines = [" ".join(row).strip() for row in asked("mistakes")]
    return "\n".join(screen(line, 100) for line in lines)


def calls(kind: str) -> str:
    """Call functions with words, right or wrong: what they return, or messages, exit codes and
    tips; and the files that were made.
    """
    lines = []
    with folder() as here, chdir(here.path), pytest.MonkeyPatch.context() as patch:
        # Layers lie on the same few books, each of which is read once.
        patch.setattr(book_reader, "_parsed", cache(book_reader._parsed))
        for name, value in (("COLUMNS", "300"), ("NO_COLOR", "1"), ("PLACER_HOME", str(here.home))):
            patch.setenv(name, value)
        words = (given, command, part, having, told)
        names: dict[str, Any] = {"here": here.path, **{word.__name__: word for word in words}}
        before = {*here.path.iterdir()}
        for line in (ASKED / f"{kind}.txt").read_text(encoding="utf-8").splitlines():
            if isinstance(next(iter(ast.parse(line).body), None), ast.Expr):
                lines += [f"$ {line}", called(line, names)]
            else:
                exec(line, names)  # noqa: S102
        lines.append(f"made: {sorted(path.name for path in {*here.path.iterdir()} - before)}")
        return here.plain("\n".join(lines)) + "\n"


def given(name: str, content: str | bytes) -> str:
    """Write a file and return its name."""
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def command(line: str) -> str:
    """Give a command wrong words in this process: its exit code and message; it prints nothing."""
    with (
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
        pytest.raises(SystemExit) as end,
    ):
        run(shlex.split(line))
    return f"{end.value.code}: {out.getvalue()}{err.getvalue()}"


def part(name: str, path: str) -> Any:
    """Return a part of a frozen document, by its path."""
    return at(viewed(name), path)


def at(document: Any, path: str) -> Any:
    """Follow a path with slashes."""
    for key in filter(None, path.split("/")):
        document = document[int(key) if isinstance(document, list) else key]
    return document


def having(document: Any, values: Mapping[str, Any]) -> Any:
    """Copy a document with other values, by their paths."""
    made = deepcopy(document)
    for path, value in values.items():
        above, _, last = path.rpartition("/")
        inside = at(made, above)
        inside[int(last) if isinstance(inside, list) else last] = value
    return made


def told(shown: str | Mapping[str, Any], values: Mapping[str, Any] | None = None) -> str:
    """Say which lines of the page of a frozen document, by its name, are others once some of its
    values are; or all lines of the page of another document.
    """
    before = viewed(shown) if isinstance(shown, str) else None
    after = having(before or shown, values or {})
    old, new = (
        lines_of(contents(one, "the document", TODAY)) if one else [] for one in (before, after)
    )
    rows = [*difflib.unified_diff(old, new, n=0, lineterm="")][2:]
    changed = (row for row in rows if not row.startswith("@@"))
    lines: list[str] = []
    for sign, alike in groupby(changed, lambda row: row[0]):
        whole = [row if sign == "+" else shorten(row, 60) for row in alike]
        most = MOST_ADDED if sign == "+" else 2
        lines += whole[:most]
        lines += [f"{sign} ... {len(whole) - most} more lines"] * (len(whole) > most)
    return "\n".join(lines)


def lines_of(report: Report) -> list[str]:
    """Write a report line by line: its key figures, charts and folded tables as tables, and rows of
    data with their numbers in full.
    """
    parts = [
        replace(part, blocks=tuple(b.table if isinstance(b, Chart) else b for b in part.blocks))
        for part in report.sections
    ]
    figures = [": ".join(figure) for figure in report.figures]
    beside = [f"{tone}: {line}" for tone, line in asides(report, whole=True)]
    shown = as_markdown([replace(report, sections=tuple(parts))]).splitlines()
    rows = as_csv(tables_of(report, whole=True)).splitlines()
    return [report.title, report.subtitle, report.tone, *figures, *shown, *beside, *rows]


def called(call: str, names: dict[str, Any]) -> str:
    """Say what a call returns, or how it is refused."""
    try:
        value = eval(call, names)  # noqa: S307
        return value.rstrip() if call.startswith(("command(", "told(")) else f"= {value!r}"
    except PlacerError as error:
        return f"{error.exit_code}: {error.message}\n   {error.hint}"


def instance_groups() -> dict[str, list[frozen.Frozen]]:
    """Return the quick instances of `frozen.csv`, in groups of about equal work."""
    groups: dict[str, list[frozen.Frozen]] = {}
    for row in frozen.rows():
        if row.cpu_s < QUICK_CPU_S:
            drawn = f"drawn-{row.regions}x{row.types}"
            name = drawn if row.book_model is None else f"book-{row.book_model}"
            groups.setdefault(name, []).append(row)
    return groups


def instances(name: str) -> str:
    """Solve frozen instances again: value, bound, nodes, placement and how they compare."""
    lines = []
    for row in instance_groups()[name]:
        found = solving.measured(
            row.question, SolveOptions(gap=0.001, time_limit_s=60), by_strategy=True
        )
        numbers = " ".join(f"{part}" for part in row.key)
        nodes = sum(part["nodes"] for part in found["by_strategy"].values())
        lines.append(
            f"{numbers}: {frozen.verdict(row, found)}, {found['status']}, "
            f"value {found['value']:.9g}, bound {found['bound']:.9g}, {nodes} nodes, "
            f"digest {found['digest']}"
        )
        groups = found["placement"]["groups"]
        machines = [f"{g['count']} x {g['instance_type']} {g['place']}" for g in groups]
        lines.append(f"    {found['strategy']}: {', '.join(machines)}")
    return "\n".join(lines) + "\n"


def printed() -> list[tuple[str, str]]:
    """List documents with the commands that print them."""
    return [(name, words.format(root=ROOT)) for name, words in asked("documents")]


def written() -> list[tuple[str, str, str]]:
    """List documents with the files that they are, and the commands that write them."""
    rows = ((name, *words.format(root=ROOT).split(maxsplit=1)) for name, words in asked("written"))
    return [(name, file, words) for name, file, words in rows]


def documents() -> dict[str, tuple[str, str]]:
    """Return the command of each document, numbered within its kind, and the file that it writes if
    it does.
    """
    seen, lines = Counter[str](), dict[str, tuple[str, str]]()
    for kind, words in printed():
        seen[kind] += 1
        name = kind if seen[kind] == 1 else f"{kind}-{seen[kind]}"
        lines[name] = f"{words} --json", ""
    kept = {name: line for name, line in lines.items() if name not in UNSETTLED}
    return kept | {f"{name}-file": (words, file) for name, file, words in written()}


def document(words: str, file: str) -> str:
    """Make a document."""
    with folder() as here:
        done = here.run(words)
        text = (here.path / file).read_text(encoding="utf-8") if file else done.stdout
        text = here.plain(text)  # before lines are laid out, by their length
        lines = text.splitlines() if file.endswith(".jsonl") else [text]
        return "".join(laid_out(json.loads(line)) for line in lines)


def viewed(name: str) -> Any:
    """Return a frozen document that has a view; None of others."""
    try:
        found = json.loads((FROZEN / f"documents/{name}.json").read_text(encoding="utf-8"))
    except ValueError:  # JSON lines
        return None
    return found if found["schema"] in KINDS else None


def page(name: str) -> str:
    """Say in Markdown what the page of a frozen document does; charts are their tables."""
    return "\n".join(lines_of(contents(viewed(name), name, TODAY))) + "\n"


def charts(name: str) -> str:
    """Write what Vega-Lite is told to draw, but for the outlines of land, and in which style."""
    parts = contents(viewed(name), name, TODAY).sections
    blocks = [block for part in parts for block in part.blocks]
    drawn = {block.name: block.draw() for block in blocks if isinstance(block, Chart)}
    style = specification(next(reversed(drawn.values())))["config"]
    told = {key: chart.to_dict(validate=False) for key, chart in drawn.items()}
    plain = {key: {**one, "$schema": "", "config": {}} for key, one in told.items()}
    return laid_out({"style": style, **plain})


@cache
def plans() -> dict[str, bytes]:
    """Write the manifests that are exported."""
    found = {}
    for name, words in asked("manifests"):
        with folder() as here:
            done = here.run(words)
            assert done.returncode == 0, done.stderr
            found[name] = (here.path / "plan.json").read_bytes()
    return found


def manifests() -> str:
    """Show the manifests that are exported, and their digests."""
    return "".join(
        f"==> {name} {short_digest(text)}\n{laid_out(json.loads(text))}"
        for name, text in plans().items()
    )


def exported(target: str) -> str:
    """Export all manifests: each file with its mode, its digest and its text, once."""
    shown: dict[str, str] = {}
    lines = []
    for name, plan in plans().items():
        with folder() as here:
            (here.path / "plan.json").write_bytes(plan)
            more = TRAINED.get(target, "")
            done = here.run(f"export plan.json --to {target} --dir launch {more}")
            lines.append(f"==> {name}: exit code {done.returncode}\n{here.plain(done.stderr)}")
            for path in sorted((here.path / "launch").rglob("*")):
                if path.is_dir():
                    continue
                text, label = path.read_bytes(), f"{name}/{path.relative_to(here.path / 'launch')}"
                digest = short_digest(text)
                lines.append(f"==> {label} {path.stat().st_mode & 0o777:o} {digest}\n")
                if digest in shown:
                    lines.append(f"the same as {shown[digest]}\n")
                elif path.name != "manifest.json":
                    lines.append(text.decode())
                shown.setdefault(digest, label)
    return "".join(lines)


@cache
def help_pages() -> dict[str, list[str]]:
    """List each command with its sub-commands."""
    from placer.cli import FORMS, cli

    def below(command: click.Command | None, name: str) -> list[str]:
        if not isinstance(command, click.Group):
            return [name]
        context = click.Context(command)
        names = command.list_commands(context)
        found = [below(command.get_command(context, n), f"{name} {n}") for n in names]
        return [name, *(row for rows in found for row in rows)]

    context = click.Context(cli)
    return {
        name: [
            *below(cli.get_command(context, name), name),
            *(f"{name} {w}" for w in FORMS.get(name, ())),
        ]
        for name in cli.list_commands(context)
    }


def help_of(name: str) -> str:
    """Show the whole help of a command and its sub-commands."""
    pages = help_pages()[name] if name else [""]
    more = {page: " all" * (page.rpartition(" ")[2] in {*COMMON, "--over"}) for page in pages}
    return "\n".join(screen(f"{page} --help{more[page]}".strip(), 100) for page in pages)


def signatures() -> str:
    """Write the public names with what they take."""
    lines: list[str] = []
    for name in sorted(placer.__all__):
        value = getattr(placer, name)
        lines += described(name, value)
        if inspect.isclass(value):
            members = {n: inspect.getattr_static(value, n) for n in dir(value) if n[0] != "_"}
            known = {*dir(Exception), *dir(dict)}
            for member in sorted({*members} - known):
                lines += described(f"{name}.{member}", members[member])
    return re.sub(r" at 0x\w+", "", "\n".join(lines)) + "\n"


def described(name: str, value: Any) -> list[str]:
    """Describe a name in a line, and in one more for each of its parameters."""
    value = getattr(value, "__func__", value)
    value = inspect.unwrap(value, stop=lambda each: hasattr(each, "__signature__"))
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return [f"{name}: {type(value).__name__}"]
    returns = signature.return_annotation
    said = "" if returns is inspect.Signature.empty else f" -> {returns}"
    return [f"{name}(){said}", *(f"    {each}" for each in signature.parameters.values())]


def openapi() -> str:
    """Write the description of the service."""
    from placer.service import openapi as described_service

    return laid_out(json.loads(described_service.text()))
