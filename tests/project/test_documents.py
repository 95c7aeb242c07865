"""The documents: commands and snippets run as they are written, and every option, file and module
that a page names exists, and where every link leads. Sphinx: test_site.py. Examples:
test_examples.py.
"""

import doctest
import importlib
import re
import runpy
import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from command_server import is_cold

from conftest import ROOT, Run, completed
from placer.cli import FORMS, cli
from placer.cli.group import loaded
from structure import FLOORS

sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))

import main_job

DOCUMENTS = sorted(
    page
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples/README.md")
    if "generated" not in page.parts
)
"""Every page of the project that people write."""
TEXT = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in DOCUMENTS}
"""Text of each page by its path."""
SOURCE_FOLDERS = ("placer", "solvers", "catalogs", "profiles", "tests", "docs", "examples")
RECORDS = ("CHANGELOG.md",)
"""Pages about the past: they may name what is gone."""
ELSEWHERE = ("train.py", "mymodel.py", "placer.toml", "experiments/code/param/bee.py")
"""Files of users and of a paper."""
FILES = ("json", "jsonl", "csv", "toml", "md")
"""Endings of files that share their name with a module."""
TIMELESS = (
    "README.md",
    *(f"docs/manual/{name}.md" for name in ("accuracy", "asking", "python", "service")),
    "docs/formulas.md",
    "docs/decisions/islands-as-pools.md",
)
"""Pages whose figures of speed are written by a benchmark, or stand on another page."""
TIMING = re.compile(
    r"\d m?s of CPU|(?:takes?|took|proved in|after|with) (?:about )?[\d.]+ (?:m?s|MiB)\b"
    r"|a tenth of the time|half a second late"
)
"""How a figure of speed is told from a limit, an option and a second of a training step."""
COVERED = (("reproduce", "cloudless"),)
"""Commands of pages that another test runs, and that take long: test_reproduce.py."""


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    kind: str
    text: str


class Example(NamedTuple):
    """Commands of a page, where a later one reads what an earlier one wrote; each with the output
    that the page shows, or nothing.
    """

    page: str
    commands: list[tuple[tuple[str, ...], str]]

    def files(self) -> set[str]:
        """List the names of what the commands write."""
        pairs = [pair for command, _ in self.commands for pair in pairwise(command)]
        return {name for option, name in pairs if option in {"-o", "--manifest", "--dir"}}


def blocks_of(page: str) -> list[Block]:
    """List the fenced blocks of a page in order."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT[page], flags=re.M | re.S)
    return [Block(page, kind, text) for kind, text in fences]


BLOCKS = [block for page in TEXT for block in blocks_of(page)]


def commands_of(block: Block, prompt: str = "") -> list[tuple[str, ...]]:
    """List the calls of placer in a block, without comments."""
    lines = block.text.replace("\\\n", " ").splitlines()
    calls = [shlex.split(line.removeprefix(prompt), comments=True) for line in lines]
    return [tuple(words[1:]) for words in calls if words and words[0] == "placer"]


def examples() -> list[Example]:
    """Collect the commands of ``console`` blocks page by page; one that writes nothing, stands on
    several pages and has no output there runs once.
    """
    seen: set[tuple[str, ...]] = set()
    collected: list[Example] = []
    for page in TEXT:
        for block, after in pairwise([*blocks_of(page), Block(page, "", "")]):
            commands = commands_of(block, "$ ") if block.kind == "console" else []
            shown = [""] * (len(commands) - 1) + [after.text if after.kind == "text" else ""]
            for command, text in zip(commands, shown, strict=False):
                names = {word.removeprefix("./") for word in command}
                earlier = [e for e in collected if e.page == page and e.files() & names]
                if earlier:
                    for other in earlier[1:]:  # it reads what several have written
                        earlier[0].commands.extend(other.commands)
                        collected.remove(other)
                    earlier[0].commands.append((command, text))
                elif command not in seen or text or Example(page, [(command, text)]).files():
                    collected.append(Example(page, [(command, text)]))
                seen.add(command)
    return collected


def once(found: list[Example]) -> list[Example]:
    """Leave out what another page has as well: the same commands, or some of them, and no output
    that is only shown here.
    """

    def has_more(example: Example) -> tuple[int, int, int]:
        shown = sum(len(text) for _, text in example.commands)
        return len(example.commands), shown, -found.index(example)

    def is_part(example: Example, other: Example) -> bool:
        return has_more(other) > has_more(example) and all(
            any(words == w and text in {"", t} for w, t in other.commands)
            for words, text in example.commands
        )

    return [e for e in found if not any(is_part(e, other) for other in found)]


FOUND = examples()
EXAMPLES = once([example for example in FOUND if example.commands[0][0] not in COVERED])
FIRST = {example.page: example for example in reversed(EXAMPLES)}
SILENT = [example for example in EXAMPLES if not any(shown for _, shown in example.commands)]
"""Examples of which no page shows what they print."""
DAILY = [e for e in SILENT if e.page.startswith("docs/manual/") and e is not FIRST[e.page]]
"""Those that run once a day: each run has the guides, and the first example of each manual page."""
SHELL = [(b.page, c) for b in BLOCKS if b.kind == "sh" for c in commands_of(b)]
SHELL += [(e.page, words) for e in DAILY for words, _ in e.commands if words[0][0] != "-"]
INLINE = [
    (page, code)
    for page, text in TEXT.items()
    for code in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
]
"""Code within a line of text, with its page."""


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(
            example,
            id=f"{example.page} {' '.join(example.commands[0][0])}"[:80],
            marks=pytest.mark.nightly if example in DAILY else (),
        )
        for example in EXAMPLES
    ],
)
def test_commands_run(run: Run, command: Run, example: Example, tmp_path: Path) -> None:
    """In a folder that holds nothing but the examples. Output that is shown is what is printed,
    piece by piece between the marks ``...``; line breaks do not count. A search whose output is
    not shown may stop early. Of those that run once a day each run looks up the options, below.
    """
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    settings = {"OMP_NUM_THREADS": "1"}
    if example in SILENT:
        settings["PLACER_DEFAULT_TIME_LIMIT"] = "2s"
    if any("pin" in words for words, _ in example.commands):
        settings["PLACER_HOME"] = str(tmp_path / "home")
    for words, shown in example.commands:
        call = command if is_cold(words) else run
        done = call(*words, columns=100, cwd=tmp_path, **settings)
        assert done.returncode == 0, f"placer {shlex.join(words)}\n{done.stdout}{done.stderr}"
        printed = " ".join(done.stdout.split())
        for piece in filter(None, (" ".join(text.split()) for text in shown.split("..."))):
            assert piece in printed
            printed = printed.partition(piece)[2]


@pytest.mark.parametrize(
    "block", [b for b in BLOCKS if b.kind == "python"], ids=lambda block: block.page
)
def test_snippets_run(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand; a session with ``>>>`` also prints what it shows."""
    if "import torch" in block.text:
        pytest.importorskip("torch")
    monkeypatch.chdir(shutil.copytree(ROOT / "examples", tmp_path / "examples").parent)
    file = tmp_path / "snippet"
    file.write_text(block.text, encoding="utf-8")
    if block.text.startswith(">>>"):
        assert doctest.testfile(str(file), module_relative=False).failed == 0
    else:
        runpy.run_path(str(file), run_name="__main__")


@lru_cache
def options_of(*names: str) -> frozenset[str]:
    """List the options of a command, ``--help`` among them; empty for a name that is none."""
    command: click.Command | None = cli
    context = click.Context(cli, info_name="placer")
    forms = {**FORMS.get(names[0], {})} if names else {}
    if len(names) == 2 and names[1] in forms:
        command, forms, names = loaded(forms[names[1]]), {names[1]: ""}, ()
    for name in names:
        if not isinstance(command, click.Group):
            return frozenset()
        command = command.get_command(context, name)
        if command is None:
            return frozenset()
        context = click.Context(command, parent=context, info_name=name)
    assert command is not None
    parameters = command.get_params(context)
    own = frozenset(word for p in parameters for word in (*p.opts, *p.secondary_opts))
    return own.union(forms, *(options_of(names[0], word) for word in forms if names))


def named_command(words: tuple[str, ...]) -> tuple[str, ...]:
    """Take the leading words that name a command or a command of a group."""
    names: tuple[str, ...] = ()
    for word in words:
        if not options_of(*names, word):
            break
        names = (*names, word)
    return names


def flags(words: tuple[str, ...]) -> set[str]:
    """List the options among the words of a command, without their values."""
    return {re.split("=", word)[0] for word in words if re.match(r"--?[A-Za-z]", word)}


@pytest.mark.parametrize(
    ("page", "words"), SHELL, ids=[" ".join((page, *words))[:60] for page, words in SHELL]
)
def test_commands_that_do_not_run_here_have_their_options(
    page: str, words: tuple[str, ...]
) -> None:
    """They need a network, rights, minutes or what the user has, or run once a day, above."""
    name = named_command(words)
    assert name, f"{page}: no command placer {words[0]}"
    assert flags(words) <= options_of(*name), f"{page}: placer {shlex.join(words)}"


def test_options_in_the_text_exist() -> None:
    """An option alone is one of some command or script; after the name of a command it is one of
    that.
    """
    every = {word for name in command_names() for word in options_of(*name)}
    for folder in ("examples", "tests/benchmarks"):
        for script in (ROOT / folder).rglob("*.py"):
            every |= set(re.findall(r'"(--[\w-]+)"', script.read_text(encoding="utf-8")))
    wrong = []
    for page, code in INLINE:
        words = tuple(code.replace("|", " ").split())
        if page in RECORDS:
            continue
        if code.startswith("--") and not flags(words) <= every:
            wrong.append(f"{page}: {code}")
        if words[:1] == ("placer",) and words[1:] and not words[1].startswith("-"):
            name = named_command(words[1:])
            if not name or not flags(words) <= options_of(*name):
                wrong.append(f"{page}: {code}")
    assert wrong == []


LOADS_EACH = """
import runpy, sys
from pathlib import Path
folder, path = Path(sys.argv[1]), sys.path[1:]
for script in sorted(folder.glob("*.py")):
    sys.path[:] = [str(folder), *path]
    for name, module in list(sys.modules.items()):
        if str(folder.parent) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]
    runpy.run_path(str(script), run_name="loaded")
"""


TOPICS = (
    *("LoRA", "own provider", "alert", "team quota", "uniform", "start-up time", "GitHub Action"),
    *("checkpoints in a bucket", "telemetry", "Windows", "macOS"),
)


@pytest.mark.parametrize("word", TOPICS)
def test_a_topic_is_found_by_its_everyday_word(word: str) -> None:
    """On a page for users, as people search for it."""
    guides = {page: text for page, text in TEXT.items() if not page.startswith("docs/decisions")}
    assert [page for page, text in guides.items() if word.lower() in text.lower()]


def test_each_benchmark_finds_what_it_imports() -> None:
    """Started from its own folder, as a reader starts it, with no help of another script."""
    folder = ROOT / "tests" / "benchmarks"
    words = [sys.executable, "-c", LOADS_EACH, str(folder)]
    done = completed(words, timeout=120)
    assert done.returncode == 0, done.stderr
    named = set(re.findall(r"`(\w+\.py)", (folder / "README.md").read_text(encoding="utf-8")))
    assert named <= {script.name for script in folder.glob("*.py")}


def command_names(prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """List the commands, and those of groups below them."""
    command: click.Command = cli
    context = click.Context(cli)
    for name in prefix:
        assert isinstance(command, click.Group)
        below = command.get_command(context, name)
        assert below is not None
        command = below
    yield prefix
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from command_names((*prefix, name))


def test_make_targets_and_scripts_exist() -> None:
    """`make NAME` is in the Makefile, and `python FILE` and `sh FILE` are there."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.M))
    lines = [code for _, code in INLINE]
    lines += [line for b in BLOCKS if b.kind == "sh" for line in b.text.splitlines()]
    made = {words[1] for line in lines if (words := line.split())[:1] == ["make"] and words[1:]}
    assert "recommend" in made
    assert made <= targets
    scripts = {
        word
        for line in lines
        if line.startswith(("python ", "sh "))
        for word in line.split()[1:]
        if word.endswith((".py", ".sh"))
    }
    assert scripts
    assert [script for script in sorted(scripts) if not (ROOT / script).exists()] == []


def is_there(code: str) -> bool:
    """Whether a path or a dotted name of placer exists; NAME stands for any."""
    if re.fullmatch(r"placer(\.\w+)+", code):
        return dotted(code)
    return any(ROOT.glob(code.rstrip("/").replace("NAME", "*")))


def dotted(name: str) -> bool:
    """Whether a dotted name is a module of placer or what one holds."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            if not hasattr(thing, attribute):
                return False
            thing = getattr(thing, attribute)
        return True
    return False


def anchor(heading: str) -> str:
    """Return what a link to a heading ends with, as GitHub and MyST name it."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w -]", "", words).replace(" ", "-")


def test_links_lead_somewhere() -> None:
    """To a file of the checkout or a page that the site makes, and to a heading that is there."""
    wrong = []
    for page, text in TEXT.items():
        prose = re.sub(r"^```.*?^```$|`[^`\n]+`", "", text, flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            name, _, heading = target.partition("#")
            path = ROOT / page if not name else (ROOT / page).parent / name
            if re.match(r"[a-z]+:", target) or "generated" in path.parts:
                continue
            there = path.read_text(encoding="utf-8") if heading and path.is_file() else ""
            anchors = {anchor(found) for found in re.findall(r"^#+ (.*)$", there, flags=re.M)}
            if not path.exists() or (heading and heading not in anchors):
                wrong.append(f"{page}: {target}")
    assert wrong == []


def test_files_and_modules_in_the_text_exist() -> None:
    """Paths below a folder of the project, and dotted names of placer."""
    path = re.compile(rf"(?:{'|'.join(SOURCE_FOLDERS)})/[\w./*-]*|placer(?:\.\w+)+")
    drawn = [
        (b.page, word.rstrip(",:")) for b in BLOCKS if b.kind == "text" for word in b.text.split()
    ]
    named = [(page, code) for page, code in INLINE + drawn if page not in RECORDS]
    assert [
        (p, code)
        for p, code in named
        if path.fullmatch(code) and code not in ELSEWHERE and not is_there(code)
    ] == []


def test_short_names_of_modules_in_the_text_exist() -> None:
    """The end of a path, such as `exact/search.py`, and what a module holds, such as
    `search.Ranges`.
    """
    texts = defaultdict(str)
    for folder in SOURCE_FOLDERS:
        for file in (ROOT / folder).rglob("*.py"):
            texts["/" + file.relative_to(ROOT).as_posix()] = file.read_text(encoding="utf-8")
    wrong = []
    for page, code in INLINE:
        module, _, name = code.partition(".")
        held = [text for path, text in texts.items() if path.endswith(f"/{module}.py")]
        if (
            page in RECORDS
            or code in ELSEWHERE
            or "NAME" in code
            or not re.fullmatch(r"[\w/]+(\.\w+)+", code)
        ):
            continue
        if code.endswith(".py"):
            there = any(path.endswith(f"/{code}") for path in texts)
        else:
            word = name.partition(".")[0]
            there = not held or word in FILES or any(re.search(rf"\b{word}\b", t) for t in held)
        if not there:
            wrong.append((page, code))
    assert wrong == []


def test_speeds_are_written_by_the_benchmark() -> None:
    """The table of speed is what `main_job.py --write` makes of its recorded measurements, and no
    page has a figure of speed beside it.
    """
    page = "docs/manual/accuracy.md"
    assert main_job.page(TEXT[page]) == TEXT[page]
    written = re.compile(f"{main_job.BEGIN}.*?{main_job.END}", flags=re.S)
    flat = {name: " ".join(written.sub("", TEXT[name]).split()) for name in TIMELESS}
    assert [(name, hit) for name in TIMELESS for hit in TIMING.findall(flat[name])] == []
    assert TIMING.search("the main job, XLM-RoBERTa for 5 USD/h, 4.0 s of CPU")


def test_architecture_draws_the_floors() -> None:
    """Each line between two lines of dashes is a floor of tests/structure.py, from the top."""
    drawing = next(b.text for b in BLOCKS if b.page == "ARCHITECTURE.md" and b.kind == "text")
    floors = [
        re.findall(r"(?:placer/)?(\w+)(?:\.py|/)", line.partition("|  ")[0])
        for line in drawing.splitlines()
    ]
    assert [set(floor) for floor in floors if floor] == [set(floor) for floor in FLOORS]


def test_a_page_that_names_what_is_gone_is_noticed() -> None:
    """A path, a module, an attribute, an option and a command that do not exist."""
    assert not is_there("placer/estimator.py")
    assert not is_there("placer.cost_model.estimator")
    assert not is_there("placer.Adviser")
    assert is_there("placer.Advisor")
    assert is_there("solvers/NAME.py")
    assert not options_of("recomend")
    assert "--budgets" not in options_of("recommend")
    assert named_command(("catalog", "import", "csv", "quote.csv")) == ("catalog", "import")
