"""Tells machines the address of the first of them, which nobody knows before it is there:
``meet.py WHAT RANK PORT ADDRESS``, for the run or one world. It is shipped as text, so it imports
nothing of placer.

Rank 0 writes its address to ``PLACER_MEETING``: ADDRESS, unless that is empty. The others read it
until rank 0 answers at its port: an address that an earlier start left there does not answer.
Prints the address.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

ELSEWHERE = "192.0.2.1"
"""An address of nobody (RFC 5737). The way to it shows which interface is used; nothing is sent."""
OK = 200
POLL_S = 2.0
ANSWER_S = 5.0
SIOCGIFADDR = 0x8915
"""Request of Linux for the address of an interface (netdevice(7))."""


def main() -> int:
    """Write the address of this machine if it has rank 0, else read it; print it."""
    what, rank, port, known = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    where = os.environ["PLACER_MEETING"]
    name = f"{os.environ['PLACER_RUN']}-{os.environ['PLACER_MANIFEST_DIGEST'][:16]}-{what}"
    place = point(where, quote(name, safe=""))
    if rank == 0:
        address = own_address(known)
        place.write(address)
        sys.stdout.write(f"{address}\n")
        return 0
    until = time.monotonic() + float(os.environ["PLACER_JOIN_TIMEOUT_S"])
    while time.monotonic() < until:
        address = place.read()
        if address and answers(address, port):
            sys.stdout.write(f"{address}\n")
            return 0
        time.sleep(POLL_S)
    sys.stderr.write(f"rank 0 did not answer at port {port} of the address in {where}\n")
    return 1


def own_address(known: str) -> str:
    """Return the first that is there: ``PLACER_OWN_ADDRESS``, the address of the interface
    ``GLOO_SOCKET_IFNAME``, what the provider says, the address of the interface on the way out.
    """
    if os.environ.get("PLACER_OWN_ADDRESS"):
        return os.environ["PLACER_OWN_ADDRESS"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if os.environ.get("GLOO_SOCKET_IFNAME"):
            import fcntl

            name = os.environ["GLOO_SOCKET_IFNAME"]
            asked = name.encode()[:15].ljust(256, b"\0")
            try:
                return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), SIOCGIFADDR, asked)[20:24])
            except OSError as error:
                sys.exit(f"GLOO_SOCKET_IFNAME: the interface {name} has no address: {error}")
        if known:
            return known
        probe.connect((ELSEWHERE, 9))
        return str(probe.getsockname()[0])


def answers(address: str, port: int) -> bool:
    """Return whether something listens at an address."""
    try:
        with socket.create_connection((address, port), timeout=ANSWER_S):
            return True
    except OSError:
        return False


def point(where: str, name: str) -> Any:
    """Return the meeting point: a folder that all mount, ``s3://BUCKET`` or
    ``etcd://HOST:PORT``.
    """
    if where.startswith("s3://"):
        return Bucket(where, name)
    if where.startswith("etcd://"):
        return Etcd(where, name)
    return Folder(where, name)


class Folder:
    """A folder that all machines mount, such as a bucket."""

    def __init__(self, where: str, name: str) -> None:
        """Name the file."""
        self.path = Path(where) / name

    def write(self, address: str) -> None:
        """Write the address whole: bucket mounts upload a file when it is closed."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(address, encoding="utf-8")

    def read(self) -> str:
        """Read the address; empty if there is none yet."""
        try:
            return self.path.read_text(encoding="utf-8").strip()
        except OSError:
            return ""


class Bucket:
    """An object of a store of S3's kind; credentials and endpoint are those that boto3 finds."""

    def __init__(self, where: str, name: str) -> None:
        """Name the object."""
        import boto3

        parts = urlsplit(where)
        self.store = boto3.client("s3")
        self.at = {"Bucket": parts.netloc, "Key": f"{parts.path.strip('/')}/{name}".lstrip("/")}

    def write(self, address: str) -> None:
        """Put the object."""
        self.store.put_object(Body=address.encode(), **self.at)

    def read(self) -> str:
        """Get the object; empty if there is none yet."""
        try:
            return str(self.store.get_object(**self.at)["Body"].read().decode())
        except self.store.exceptions.NoSuchKey:
            return ""


class Etcd:
    """A key of etcd, by the JSON gateway of its version 3."""

    def __init__(self, where: str, name: str) -> None:
        """Name the key."""
        self.host = urlsplit(where).netloc
        self.key = base64.b64encode(f"placer/{name}".encode()).decode()

    def write(self, address: str) -> None:
        """Put the key."""
        self.ask("put", value=base64.b64encode(address.encode()).decode())

    def read(self) -> str:
        """Get the key; empty if there is none yet, or etcd does not answer."""
        try:
            found = self.ask("range").get("kvs", [])
        except (OSError, HTTPException):
            return ""
        return base64.b64decode(found[0]["value"]).decode() if found else ""

    def ask(self, verb: str, **words: str) -> dict[str, Any]:
        """Post one request."""
        connection = HTTPConnection(self.host, timeout=ANSWER_S)
        connection.request("POST", f"/v3/kv/{verb}", json.dumps({"key": self.key, **words}))
        answer = connection.getresponse()
        told: dict[str, Any] = json.loads(answer.read())
        if answer.status != OK:
            raise OSError(f"etcd answers {answer.status}: {told}")
        connection.close()
        return told


if __name__ == "__main__":
    sys.exit(main())
