"""The program by which machines tell each other the address of rank 0, and the words about it."""

from __future__ import annotations

from importlib.resources import files as packaged

from placer.documents.manifest.rendezvous import plain_name
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.heading import comments, heading

MEET_FILE = "meet.py"
BESIDE = 'python3 "$(dirname -- "${BASH_SOURCE[0]}")/meet.py"'
"""Command of a script that lies beside the program."""
KINDS = (
    "a folder that every machine mounts, `s3://BUCKET` (with boto3 and its credentials) or "
    "`etcd://HOST:PORT`"
)


def meeting_program() -> str:
    """Return the program, which needs no other package."""
    return (
        packaged("placer.launch.export.resources")
        .joinpath("meeting_point.py")
        .read_text(encoding="utf-8")
    )


def meeting_files(plan: ExportPlan, target: str) -> dict[str, str]:
    """Return the program as a file, if the machines of the plan meet at an address."""
    if plan.manifest.rendezvous.method != "address":
        return {}
    return {MEET_FILE: comments(heading(plan, target)) + meeting_program()}


def meeting_bucket(plan: ExportPlan) -> str:
    """Return the name of a bucket of this plan alone: names of buckets are global."""
    return f"placer-meeting-{plain_name(plan.manifest.digest)[:16]}".strip("-")


def unknown_address_words() -> list[str]:
    """Say what to do where nobody knows the address of rank 0 before its machine is there."""
    return [
        "If it is not known before the start, set `PLACER_MEETING` instead, on all machines, to "
        f"{KINDS}:",
        *meets_words(),
    ]


def meets_words() -> list[str]:
    """Say how the machines meet, and which address rank 0 tells."""
    return [
        "rank 0 writes its address there, and the others wait until rank 0 answers at it. Rank 0 "
        "gives the address of the interface",
        "`GLOO_SOCKET_IFNAME` if that is set (for a VPN), else `PLACER_OWN_ADDRESS` if that is "
        "set, else its address in the provider's network.",
    ]
