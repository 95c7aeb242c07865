"""Feed wrong arguments, files and special files to every command, and count what must not happen.

    python tests/benchmarks/fuzz.py 10000
    python tests/benchmarks/fuzz.py 1 --first 4711 --show

Each input is drawn from its number alone, so that one can be run again. It runs in a process of its
own, forked from this one with placer loaded, in an empty folder. Counted are internal failures
(also tracebacks and deaths by a signal), hangs (more than ``--seconds`` of CPU time, or no end
within ten times as long, as the machine may be busy), and processes above ``--mib`` MiB. Nothing
trains and nothing is downloaded: commands that would start workers are given wrong ranks, and
proxies lead nowhere.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placer.documents.manifest import document_digest

ROOT = Path(__file__).resolve().parents[2]
SAVED = ROOT / "tests" / "fixtures" / "saved"
EXAMPLES = ROOT / "examples"
SHOWN = 10
"""Failures whose arguments are printed."""
PATIENCE = 10
"""A process that waits is a hang after so many times the CPU time of one that works."""
WORDS = (
    "", " ", "nan", "inf", "-inf", "-1", "0", "1e400", "1e-400", "9" * 400, "0x10", "1_000", "5/h",
    "-5/h", "1e308/h", "5/h5", "T4", "T4,,A10", "*", "**", "[", "[a-", "a..b", "1..", "..", "5..1",
    "gcp/*", "gcp/us-west1=1xT4", "=", "==", "x=", "=x", "a=b=c", ":", "::", "a:b:c:d", "/", "//",
    "~", ".", "-", "--", "-x", "--help", "\n", "\t", "a\nb", "\x1b[31m", "\u202e", "\ud800",
    "\udcff", "\u00e9", "\U0001f600", "x" * 5000, "%s%n", "{}", "{0}", "$(id)", "`id`", "'; --",
    "../nowhere", "http://", "http://me:pw@127.0.0.1:1/x?y", "hf:", "hf:nothing", "7B",
    "1e99B", "-7B", "none", "null", "None", "true", "spot", "on-demand", "all", "auto", "optimal",
)  # fmt: skip
"""Values of arguments: empty, out of range, of another grammar, of another alphabet, of a shell."""
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, -0.0, 1e-320, 1e308, 0.5, "", "x", "nan",
    "\u0000", "\ud800", "gcp/us-west1", "x" * 10_000, [], [[]], [None], ["x"], {}, {"": {}},
    {"a": 1},
)  # fmt: skip
"""Values in documents."""
ASK = (
    "--model roberta-xlm --catalog erben-2023 --gpu T4 --regions 1..1 --budget 2/h --time-limit 1s"
)
COMMANDS = (
    f"recommend {ASK}", f"recommend {ASK} --json", f"recommend {ASK} --workers 2..4 --market spot",
    f"recommend {ASK} --keep raw-data=north-america --tbs 1024 --exchange all-reduce",
    f"pareto {ASK} --points 3", f"explain {ASK}", f"robust {ASK} --worlds 2",
    f"whatif {ASK} --set price:gcp/*:T4=x2", f"whatif {ASK} --over budget=1/h,2/h",
    "estimate --model roberta-xlm --catalog erben-2023 --workers gcp/us-west1=2xT4:spot",
    "estimate --simulate --model roberta-xlm --catalog erben-2023 --workers gcp/us-west1=2xT4:spot",
    "estimate --model resnet50 --catalog erben-2023 --every-exchange --workers gcp/us-west1=2xT4",
    "models roberta-xlm", "offers --catalog erben-2023 --gpu T4", "catalog list",
    "catalog show erben-2023", "catalog diff erben-2023 phalak-2023",
    "network show gcp/us-west1 aws/us-west-2 --catalog erben-2023",
    "validate --schema result", "--completion bash", "reproduce nothing", "validate result.json",
    "run manifest.json --train a:b --rank 99999", "run --rehearse manifest.json --kill 99@99",
    "export manifest.json --to torchrun --dir out", "export manifest.json --to slurm --dir out",
)  # fmt: skip
"""Whole commands whose words are changed."""
READERS = (
    "validate FILE", "validate FILE --json", "explain FILE", "run FILE --train a:b --rank 99999",
    "run --rehearse FILE --kill 9999@9999", "whatif FILE --observed run.jsonl",
    "whatif manifest.json --observed FILE", "whatif --merge FILE",
    "whatif --merge sweep.jsonl FILE",
    "profile runs FILE --catalog erben-2023",
    "network import csv FILE", "network import iperf3 FILE --from gcp/us-west1 --to aws/us-east-1",
    "catalog import csv FILE --as x --dry-run", "models FILE",
    "recommend --model FILE --budget 1/h",
    "recommend --model hf:FILE --budget 1/h", f"recommend {ASK} --quota FILE",
    f"recommend {ASK} --calibration FILE", f"recommend {ASK} --catalog FILE",
    "offers --catalog FILE", f"whatif {ASK} --over budget=1/h,2/h -o FILE",
    f"recommend {ASK} -o FILE", f"recommend {ASK} --manifest FILE",
    "validate --schema result -o FILE",
    *(f"export FILE --to {target} --dir out" for target in (
        "torchrun", "skypilot", "hivemind", "jobset", "trainjob", "compose",
        "cloudformation", "torchtitan", "megatron")),
)  # fmt: skip
"""Commands that read or write a file."""
PAIRS = {
    "run.jsonl": "whatif manifest.json --observed FILE", "sweep.jsonl": "whatif --merge FILE",
    "runs.csv": "profile runs FILE --catalog "
    "erben-2023", "manifest.json": "validate FILE", "result.json": "explain FILE",
    "calibration.json": f"recommend {ASK} --calibration FILE",
    "quota.csv": f"recommend {ASK} --quota FILE", "wishes.json": "validate FILE",
    "profile.json": "recommend --model FILE --catalog erben-2023 --budget 2/h --time-limit 1s",
    "one.json": "network import iperf3 FILE --from gcp/us-west1 --to aws/us-east-1",
    "quote.csv": "offers --catalog default --catalog ./FILE --gpu T4",
}  # fmt: skip
"""The command that reads deepest into a kind of document."""
SPECIAL = (
    "pipe", "folder", "loop", "gone", "empty", "noise", "deep.json", "line.csv", "huge", "socket",
    "/dev/zero", "/dev/full", "/dev/urandom", "/proc/self/mem", "/dev/stdin", "/proc/self/environ",
    "no/such/file", "x" * 300, "a\nb", "\udcff", ".", "..", "/",
)  # fmt: skip
"""Files that `special_file` makes, devices, and names of no file."""
PIECES = (
    b"\0", b"\xff", b",", b'"', b"\n", b"{", b"[" * 2000, b"9" * 500, b"-", b"nan", b"1e999",
    b"\xef\xbb\xbf", b"\r", b"=",
)  # fmt: skip
"""Bytes that are put into files."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one input ended."""

    number: int
    words: list[str]
    kind: str
    mib: float
    seconds: float
    text: str


def main() -> int:
    """Run inputs and print the counts; exit code 1 if anything happened that must not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("inputs", type=int)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seconds", type=float, default=60.0, help="of CPU time: then a hang")
    parser.add_argument("--mib", type=float, default=1024.0, help="most memory of an input")
    parser.add_argument("--show", action="store_true", help="print every input and what it said")
    given = parser.parse_args()
    load()
    counts: Counter[str] = Counter()
    most_mib = most_seconds = 0.0
    shown = 0
    for number in range(given.first, given.first + given.inputs):
        outcome = run_input(number, given.seconds, given.mib)
        counts[outcome.kind] += 1
        most_mib, most_seconds = max(most_mib, outcome.mib), max(most_seconds, outcome.seconds)
        bad = outcome.kind in ("internal failure", "hang", "memory")
        if given.show or (bad and shown < SHOWN):
            shown += bad
            print(f"{number}: {outcome.kind}: {ascii(outcome.words)[:400]}\n{outcome.text[-1500:]}")
    wrong = counts["internal failure"] + counts["hang"] + counts["memory"]
    print(f"{given.inputs:,} inputs: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items()))
    print(f"at most {most_mib:.0f} MiB and {most_seconds:.1f} s")
    return 1 if wrong else 0


def load() -> None:
    """Import what most commands need once, before processes are forked."""
    import placer.interface.worlds
    from placer.cli import cli
    from placer.market.books.book_reader import load_catalog

    load_catalog("erben-2023")
    context = cli.make_context("placer", ["--version"], resilient_parsing=True)
    for name in cli.list_commands(context):
        if name not in ("profile",):
            cli.get_command(context, name)
    assert placer.interface.worlds


def run_input(number: int, seconds: float, most_mib: float) -> Outcome:
    """Run one input in a process of its own.

    ``number``: all that it is drawn from. ``seconds``: after so much CPU time it is a hang.
    ``most_mib``: most memory.
    """
    folder = Path(tempfile.mkdtemp(prefix="fuzz"))
    start = time.monotonic()
    try:
        words = drawn(random.Random(number), folder)
        pid = os.fork()
        if not pid:
            child(words, folder)
        code, used = waited(pid, seconds)
        text = (folder / "said").read_text(encoding="utf-8", errors="replace")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    mib, lasted = used.ru_maxrss / 1024, time.monotonic() - start
    kind = (
        "hang" if code is None else
        "internal failure" if code < 0 or "internal failure" in text or "Traceback" in text else
        "memory" if mib > most_mib else "refused" if code else "answered"
    )  # fmt: skip
    return Outcome(number=number, words=words, kind=kind, mib=mib, seconds=lasted, text=text)


def child(words: list[str], folder: Path) -> None:
    """Run the command and end without this program's own exit."""
    os.setsid()
    os.chdir(folder)
    said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    silence = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((silence, 0), (said, 1), (said, 2)):
        os.dup2(source, target)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        os.environ[name] = "http://127.0.0.1:9"
    os.environ |= {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_DATA_HOME": str(folder / "data")}
    os.environ.pop("PLACER_DEBUG", None)
    limit = 4 << 30  # so that a fault does not take the machine with it
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    code = 70
    try:
        from placer.cli import run

        run(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def waited(pid: int, seconds: float) -> tuple[int | None, resource.struct_rusage]:
    """Wait for a process: its exit code, -N for a signal, None if it had to be killed."""
    until, late = time.monotonic() + PATIENCE * seconds, False
    pause = 0.001
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            return (None if late else os.waitstatus_to_exitcode(status)), used
        if not late and (time.monotonic() > until or cpu_s(pid) > seconds):
            late = True
            os.killpg(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(0.02, pause * 1.5)


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process that has not been waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def drawn(draw: random.Random, folder: Path) -> list[str]:
    """Draw one input, and write its files."""
    kinds: tuple[Callable[[random.Random, Path], list[str]], ...]
    kinds = (changed_arguments, changed_document, changed_document, special_file, changed_manifest)
    return draw.choice(kinds)(draw, folder)


def changed_arguments(draw: random.Random, folder: Path) -> list[str]:
    """Replace, drop, double or add words of a command."""
    documents(folder)
    words = draw.choice(COMMANDS).split()
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at = draw.randrange(len(words))
        word = draw.choice(WORDS).replace("\0", "")
        match draw.randrange(6):
            case 0 if len(words) > 1:
                del words[at]
            case 1:
                words.insert(at, words[draw.randrange(len(words))])
            case 2:
                words.append(draw.choice(("--json", "--seed", "--gap", "--objective", "--quota")))
            case 3:
                text = words[at]
                cut = draw.randrange(len(text) + 1)
                words[at] = text[:cut] + word[:50] + text[cut + draw.randint(0, 2) :]
            case _:
                words[at] = word
    return words if draw.random() < 0.9 else [words[0], *draw.sample(WORDS, 3)]


def changed_document(draw: random.Random, folder: Path) -> list[str]:
    """Change bytes or values of a document, for the command that reads it, or for any."""
    names = documents(folder)
    name = draw.choice(names)
    path = folder / name
    path.write_bytes(changed(draw, path.read_bytes(), name))
    command = PAIRS.get(name, "validate FILE")
    if draw.random() < 0.4:
        command = draw.choice(READERS)
    return [word.replace("FILE", name) for word in command.split()]


def changed_manifest(draw: random.Random, folder: Path) -> list[str]:
    """Change values of a manifest and sign it anew: what is behind the digest is reached."""
    documents(folder)
    path = folder / "manifest.json"
    document = json.loads(path.read_bytes())
    for _ in range(draw.choice((1, 1, 1, 2))):
        change_value(draw, document)
    with suppress(Exception):  # one that cannot be signed keeps the old digest
        document["digest"] = document_digest(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    commands = [word for word in READERS if word.startswith(("export", "run", "validate", "rehe"))]
    commands.append("whatif FILE --observed run.jsonl --catalog erben-2023")
    return [word.replace("FILE", path.name) for word in draw.choice(commands).split()]


def special_file(draw: random.Random, folder: Path) -> list[str]:
    """Name something that is no regular file, or none that can be used."""
    documents(folder)
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "gone").symlink_to("nowhere/file")
    (folder / "empty").touch()
    (folder / "noise").write_bytes(draw.randbytes(draw.choice((1, 100, 70_000))))
    (folder / "deep.json").write_bytes(b"[" * 200_000)
    (folder / "line.csv").write_bytes(b"a," * 200_000)
    with (folder / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
    name = draw.choice(SPECIAL)
    if draw.random() < 0.3:
        name = f"./{name}" if not name.startswith("/") else name
    return [word.replace("FILE", name) for word in draw.choice(READERS).split()]


def documents(folder: Path) -> list[str]:
    """Copy one document of each kind; returns their names."""
    for path in (*SAVED.iterdir(), EXAMPLES / "runs.csv",
                 EXAMPLES / "quote.csv", SAVED.parent / "links" / "one.json"):  # fmt: skip
        if path.is_file():
            shutil.copy(path, folder)
    shutil.copy(ROOT / "profiles" / "roberta-xlm.json", folder / "profile.json")
    (folder / "quota.csv").write_text("place,gpu,market,gpus\n*,T4,spot,4\ngcp/*,*,*,8\n")
    return sorted(path.name for path in folder.iterdir())


def changed(draw: random.Random, data: bytes, name: str) -> bytes:
    """Change a document: its values where it is JSON, else its bytes."""
    if name.endswith((".json", ".jsonl")) and draw.random() < 0.7:
        lines = data.splitlines() if name.endswith("l") else [data]
        at = draw.randrange(len(lines))
        document = json.loads(lines[at])
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            change_value(draw, document)
        lines[at] = json.dumps(document).encode()
        return b"\n".join(lines) + b"\n"
    for _ in range(draw.choice((1, 1, 2, 4))):
        at = draw.randrange(len(data) + 1)
        piece = draw.choice((*PIECES, draw.randbytes(3)))
        match draw.randrange(4):
            case 0:
                data = data[:at] + piece + data[at:]
            case 1:
                data = data[:at] + piece + data[at + len(piece) :]
            case 2:
                data = data[:at] if draw.random() < 0.3 else data[:at] + data[at + 20 :]
            case _:
                data = data[:at] + data[at : at + 200] + data[at:]
    return data


def change_value(draw: random.Random, document: Any) -> None:
    """Replace, remove or add one value somewhere in a document of JSON."""
    places = list(containers(document))
    place = draw.choice(places)
    keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
    value = deepcopy(draw.choice(VALUES))
    if not keys or draw.random() < 0.1:
        place.update({"x": value}) if isinstance(place, dict) else place.append(value)
        return
    key = draw.choice(keys)
    match draw.randrange(5):
        case 0:
            del place[key]
        case 1 if isinstance(place[key], int | float) and abs(place[key]) < 1e300:
            place[key] = place[key] * draw.choice((-1, 0, 0.5, 2, 1e6, 1e30))
        case 2:
            place[key] = [place[key]]
        case _:
            place[key] = value


def containers(document: Any) -> Iterator[Any]:
    """Yield the objects and arrays of a document."""
    if isinstance(document, dict | list):
        yield document
        for value in document.values() if isinstance(document, dict) else document:
            yield from containers(value)


if __name__ == "__main__":
    sys.exit(main())
