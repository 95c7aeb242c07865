"""TCP sockets on which this process and its descendants listen, from Linux's ``/proc``."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

LISTEN = "0A"
"""State of a listening socket in ``/proc/PID/net/tcp``."""
PROC = Path("/proc")


def listeners(root: int | None = None) -> set[tuple[str, int, str]]:
    """List address, port and name of the process of each listening socket of a process tree.

    Sockets of another network namespace are left out: no other machine reaches them.
    """
    listening = {}
    for table in (PROC / "self/net").glob("tcp*"):  # without IPv6 there is no tcp6
        for line in table.read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == LISTEN:
                address, _, port = cells[1].partition(":")
                listening[cells[9]] = str(_address(address)), int(port, 16)
    found = set()
    for pid in _tree(os.getpid() if root is None else root):
        try:
            own = _sockets(pid) & listening.keys()
            name = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            found |= {(*listening[inode], name) for inode in own}
        except OSError:  # it has ended
            continue
    return found


@contextmanager
def watched(root: int | None = None, every_s: float = 0.1) -> Iterator[set[tuple[str, int, str]]]:
    """Collect all listening sockets of a process tree while a block runs."""
    seen: set[tuple[str, int, str]] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(every_s):
            seen.update(listeners(root))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        seen.update(listeners(root))
        over.set()
        thread.join()


def open_to_others(seen: set[tuple[str, int, str]]) -> set[tuple[str, int, str]]:
    """Leave out sockets on the loopback device."""
    return {socket for socket in seen if not ip_address(socket[0]).is_loopback}


def _tree(root: int) -> list[int]:
    """List a process and its descendants."""
    parents = {}
    for entry in PROC.glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
        except OSError:
            continue
    tree = [root]
    for pid in tree:
        tree += [child for child, parent in parents.items() if parent == pid]
    return tree


def _sockets(pid: int) -> set[str]:
    """List the inodes of the sockets that a process holds."""
    inodes = set()
    for entry in (PROC / str(pid) / "fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return inodes


def _address(words: str) -> IPv4Address | IPv6Address:
    """Read an address: words of 32 bits, each in the byte order of this machine (little)."""
    data = bytes.fromhex(words)
    turned = b"".join(data[i : i + 4][::-1] for i in range(0, len(data), 4))
    address = ip_address(turned)
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
