"""Own machines from what cluster managers and tools print: nodes of Slurm and Kubernetes, machines
of a plan of Terraform, the links that ``nvidia-smi topo -m`` shows, and logs of nccl-tests.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.files.bounded_file import read_file
from placer.files.json_text import parse_json
from placer.files.yaml_text import parse_yaml
from placer.market.accelerators import processor_vcpus
from placer.market.sources.harvest import Tally
from placer.market.sources.reading.mapped_rows import known_by_default, mapped_rows
from placer.market.sources.reading.mapping import shipped_mapping
from placer.market.sources.reading.records import is_of, parsed_records

MOST_BYTES = 32 * 2**20  # A node of Kubernetes has some 20 kB
LISTS = ("sinfo", "kubernetes-nodes", "terraform")
"""Mappings of lists of nodes and machines."""
LINK_GB_PER_S = 25.0
"""One link of NVLink 2 to 4 (V100 to H100), each way, GB/s: data sheets of NVIDIA; NVLink 5 has 50,
so for a B200 this is too low, never too high.
"""
_BUS = re.compile(
    r"^(?:\S*[:>])?\s*(\d{1,18})\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)[ \t]*(\S*)"
    r"(?:[ \t]+[\d.]+[ \t]+[\d.]+[ \t]+[\d.]+[ \t]+(\S+))?",
    re.MULTILINE,
)
LEAST_BYTES = 2**20
"""Smaller messages show how long one takes to begin."""
_LINKS = re.compile(r"NV([0-9]+)")


def with_files(word: str) -> tuple[list[str], str]:
    """Put what files say into a word of own machines; return the words that it becomes, and what
    was read, in words (empty: it names no file). ``nodes.txt@Berlin`` names a list of nodes, and
    ``pc=1xH100:8@Berlin:nvlink=topo.txt`` the links inside a machine.
    """
    name, at, rest = word.partition("@")
    if at and "=" not in name and Path(name).is_file():
        words, assumed, left_out = _nodes(name, rest)
        shown = "".join(f"; left out: {count} x {why}" for why, count in left_out.items())
        taken = "".join(f"; assumed: {one}" for one in assumed)
        return words, f"read {name} as {' '.join(f'--own {one}' for one in words)}{taken}{shown}"
    if not at and Path(word).is_file():
        refuse_known(word)
    links = re.search(r":nvlink=([^:]+)", word)
    if links is None or not Path(links[1]).is_file():
        return [word], ""
    figure = _nvlink(links[1])
    return [word.replace(links[0], f":nvlink={figure}")], f"read {links[1]} as nvlink={figure}"


def refuse_known(path: str) -> None:
    """Raise a PlacerError that says what a file of these tools is, and where it is understood;
    return where it is none of them.
    """
    text = read_file(path, "check the path", MOST_BYTES).decode("utf-8", "replace")
    inside = f"give it as --own NAME=1xGPU:N@PLACE:nvlink={path}"
    if (bus := _bus_bandwidth(text, path)) is not None:
        size, rate = bus
        what = f"a log of nccl-tests: bus bandwidth {rate:g} GB/s at {size / 2**30:.3g} GiB"
        raise PlacerError(f"'{path}' is {what}", inside)
    if _pairs(text):
        raise PlacerError(f"'{path}' is what nvidia-smi topo -m prints", inside)
    if any(is_of(_document(text), shipped_mapping(name)) for name in LISTS):
        raise PlacerError(f"'{path}' is a list of nodes", f"give it as --own {path}@PLACE")


def _nodes(path: str, place: str) -> tuple[list[str], list[str], Mapping[str, int]]:
    document = _document(read_file(path, "check the path", MOST_BYTES).decode("utf-8", "replace"))
    known = next((name for name in LISTS if is_of(document, shipped_mapping(name))), None)
    if known is None and any("NODELIST" in row for row in document or ()):
        words = f"own '{path}' is of sinfo without the column GRES, which names the GPUs"
        raise PlacerError(words, "print it with sinfo -o '%N %D %t %c %m %G'")
    if known is None:
        tip = "; or ".join(shipped_mapping(name).about for name in LISTS)
        raise PlacerError(f"own '{path}' is no list of nodes that is known", f"give {tip}")
    mapping, tally = shipped_mapping(known), Tally(skip_bad=False, may_skip=False)
    book = known_by_default() if mapping.machines == "book" else None
    rows = mapped_rows(parsed_records(document, mapping, path), mapping, tally, {}, None, book)
    alike: Counter[tuple[str, ...]] = Counter()
    names: dict[tuple[str, ...], str] = {}
    assumed: dict[str, None] = {}
    for where, found, _ in rows:
        row = found
        if "instance_type" in row:  # what the book has, as a list of nodes writes it
            host = {"ram": f"{row['memory_gib']:g}GiB", "cpus": f"{row['vcpus']:g}"}
            row = {**row, **host, "gpus": row["gpu_count"]}
        if processor_vcpus(str(row["gpu"])) is not None:
            tally.leave_out("machines without a GPU", f"{row['name']} {row['instance_type']}")
            continue
        kind = tuple(str(row[name]) for name in ("gpu", "gpus", "ram", "cpus"))
        if not kind[0]:
            words = f"{where}: does not say which GPU its nodes have"
            raise PlacerError(
                words, f"write the word yourself: {row['name']}=1xGPU:{kind[1]}@PLACE"
            )
        alike[kind] += int(str(row["count"]))
        names.setdefault(kind, str(row["name"]))
        if row.get("assumed"):
            assumed[str(row["assumed"])] = None
    if not alike:
        raise PlacerError(f"own '{path}' has no node that is free", f"{tally.nothing().message}")
    words_of = [
        f"{names[kind]}={count}x{kind[0]}:{kind[1]}@{place}"
        + "".join(f":{k}={v}" for k, v in zip(("ram", "cpus"), kind[2:], strict=True) if v)
        for kind, count in alike.items()
    ]
    return words_of, [*assumed], tally.reasons()


def _document(text: str) -> Any:
    """Parse JSON, YAML of Kubernetes, blocks of scontrol, or a table whose columns stand between
    blanks or bars; None for none of them.
    """
    braced = text.lstrip()[:1] in ("{", "[")
    if braced or re.match(r"\s*(?:apiVersion|kind|items):", text):
        try:
            return parse_json(text) if braced else parse_yaml(text)
        except (ValueError, RecursionError):
            return None
    if text.lstrip().startswith("NodeName="):
        blocks = (dict(_PAIR.findall(block)) for block in re.split(r"(?m)^(?=NodeName=)", text))
        return [{_NAMES.get(k, k): v for k, v in block.items()} for block in blocks if block]
    table = [line for line in text.splitlines() if line.strip()]
    while table and not re.search(r"NODELIST|HOSTNAMES", table[0]):  # the time above sinfo -l
        table.pop(0)
    sign = "|" if table and "|" in table[0] else None
    lines = [line.split(sign) for line in table]
    titles = [name.strip().upper() for name in lines[0]] if lines else []
    names = [_NAMES.get(title, title) for title in titles]
    rows = [
        dict(zip(names, map(str.strip, cells), strict=True))
        for cells in lines[1:]
        if len(cells) == len(names)
    ]
    return [
        {"NODES": str(_hosts(row["NODELIST"])), **row} if "NODELIST" in row else row for row in rows
    ]


_PAIR = re.compile(r"(\w+)=(\S+)")
_NAMES = {
    "HOSTNAMES": "NODELIST",
    "NodeName": "NODELIST",
    "Gres": "GRES",
    "CPUTot": "CPUS",
    "RealMemory": "MEMORY",
    "State": "STATE",
}
"""Other names of columns of sinfo, also those of scontrol."""


def _hosts(nodes: str) -> int:
    """Count the nodes of a list of Slurm.

    >>> _hosts("gpu[01-04,7]"), _hosts("dgx3"), _hosts("a[1-2],b")
    (5, 1, 3)
    """
    count = 0
    for name in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", nodes):
        parts = re.findall(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", name.partition("[")[2])
        count += sum(int(last or first) - int(first) + 1 for first, last in parts) or 1
    return count


def _nvlink(path: str) -> str:
    """Return the bandwidth between the devices of a machine as a word of own machines.

    What nccl-tests measured is what a ring moves, less than the links could: never too fast. Where
    a pair has no NVLink, rings go over PCIe.
    """
    text = read_file(path, "check the path", MOST_BYTES).decode("utf-8", "replace")
    if (bus := _bus_bandwidth(text, path)) is not None:
        return f"{bus[1]:g}GB/s"
    pairs = _pairs(text)
    if not pairs:
        tip = "give what 'nvidia-smi topo -m' or nccl-tests prints, or a figure: nvlink=450GB/s"
        raise PlacerError(f"nvlink '{path}' shows no links of GPUs", tip)
    links = [[_LINKS.fullmatch(cell) for cell in row] for row in pairs]
    if not all(cell for row in links for cell in row):
        return "no"
    # Devices on a switch show all their links to each other one; in a mesh they are divided.
    least = min(max(int(cell[1]) for cell in row if cell) for row in links)
    return f"{least * LINK_GB_PER_S:g}GB/s"


def _bus_bandwidth(text: str, path: str) -> tuple[int, float] | None:
    """Return the largest size of a log of nccl-tests, bytes, and its bus bandwidth, GB/s; None of
    another text. Raise a PlacerError for one that shows no links inside a machine.
    """
    if "busbw" not in text:
        return None
    log = f"'{path}' is a log of nccl-tests"
    hosts = {*re.findall(r"#\s*Rank\s+\d+.* on\s+(\S+)\s+device", text)}
    if len(hosts) > 1:
        words = f"{log} on {len(hosts)} machines: it shows the network between them"
        raise PlacerError(words, "measure on one machine; the network is lan=400Gb/s")
    rows = _BUS.findall(text)
    if any(re.fullmatch(r"[1-9][0-9]*", cell) for row in rows for cell in row[2:]):
        words = f"{log} that counts wrong results: a link or a device is broken"
        raise PlacerError(words, "mend the machine and measure again")
    size, rate = max(((int(size), float(rate)) for size, rate, *_ in rows), default=(0, 0.0))
    if rows and size < LEAST_BYTES:
        words = f"{log} up to {size:,} bytes: so few show no bandwidth"
        raise PlacerError(words, "measure up to 8 GiB: all_reduce_perf -b 8 -e 8G -f 2 -g 8")
    return (size, rate) if rows else None


def _pairs(text: str) -> list[Sequence[str]]:
    """Return the links of each GPU to the others, as nvidia-smi names them."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)  # the header is underlined
    rows = [line.split() for line in plain.splitlines() if re.match(r"\s*GPU\d+\s", line)]
    gpus = [name for name in rows[0] if re.fullmatch(r"GPU\d+", name)] if rows else []
    cells = {row[0]: row[1 : len(gpus) + 1] for row in rows[1:] if row[0] in gpus}
    return [
        [cell for cell in of if cell != "X"]
        for gpu, of in cells.items()
        if len(of) == len(gpus) > 1 and of[gpus.index(gpu)] == "X"
    ]
