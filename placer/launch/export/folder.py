"""The folder of an export: written whole or not at all, and compared with what lies there."""

from __future__ import annotations

import difflib
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from glob import escape
from pathlib import Path

from placer.errors import PlacerError, writing_hint
from placer.files.whole_files import MARK as TEMPORARY
from placer.files.whole_files import exchange_names, folder_beside
from placer.launch.export.texts.files import MARK

MANIFEST = "manifest.json"
"""A folder with it is an export and may be replaced."""
FALLBACK = re.compile(r"manifest-fallback-[0-9]+\.json")
"""Copies of manifests have no heading: their name tells that they are of an export."""
HEAD = 2_000
"""Characters of a file in which its heading stands."""


def write_folder(path: str, files: Mapping[str, str]) -> None:
    """Write texts by name into a new folder beside the target, then rename it: the folder is whole
    or as it was. Scripts (``.sh``) may be executed.

    What an earlier export wrote there is replaced, and other files are kept. A folder that holds
    something else is refused.
    """
    target = _target(path)
    try:
        _restore(target)
        if target.exists() and any(target.iterdir()) and not (target / MANIFEST).is_file():
            raise PlacerError(f"'{path}' holds files, but no export", "give an empty or new folder")
        with folder_beside(target) as beside:
            if target.exists():
                shutil.copytree(
                    target, beside, symlinks=True, dirs_exist_ok=True, copy_function=_keep
                )
            for name in left_over(str(beside), files):
                (beside / name).unlink()
            for name, text in files.items():
                _write(beside / name, text)
            _put_in_place(beside, target)
    except OSError as error:
        raise PlacerError(
            f"cannot write '{path}': {_words(error)}",
            writing_hint(error, "choose a folder that can be written"),
        ) from None


def difference(path: str, files: Mapping[str, str]) -> str:
    """Compare what lies in a folder with what would be written, as a unified diff."""
    target, parts = _target(path), []
    for name, text in sorted({**dict.fromkeys(left_over(path, files), ""), **files}.items()):
        file = target / name
        try:
            present = file.read_text(encoding="utf-8") if file.is_file() else ""
        except (OSError, UnicodeDecodeError) as error:
            hint = "give the folder of an export"
            raise PlacerError(f"cannot read '{file}': {error}", hint) from None
        lines = (present.split("\n"), text.split("\n"))
        parts += [
            f"{line}\n"
            for line in difflib.unified_diff(*lines, f"{path}/{name}", f"{name} (new)", lineterm="")
        ]
    return "".join(parts)


def left_over(path: str, files: Mapping[str, str]) -> list[str]:
    """List files that an earlier export wrote and this one does not."""
    folder = _target(path)
    if not (folder / MANIFEST).is_file():
        return []
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.is_file()
        and not entry.is_symlink()
        and entry.name not in files
        and (FALLBACK.fullmatch(entry.name) or MARK.encode() in _head(entry))
    )


def _head(file: Path) -> bytes:
    """Read as much of a file as its heading may need; the rest may be gigabytes."""
    with file.open("rb", buffering=0) as stream:
        return stream.read(HEAD)


def _words(error: OSError) -> str:
    """Return the system's message, also where many files were copied and some of them failed."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        return str(error.args[0][0][-1])
    return error.strerror or str(error)


def _target(path: str) -> Path:
    try:
        target = Path(path).resolve()
        wrong = not path.strip() or "\0" in path or (target.exists() and not target.is_dir())
    except (OSError, ValueError, RuntimeError):
        wrong = True
    if wrong or not target.name:
        raise PlacerError(f"'{path}' is not the name of a folder", "give a folder, such as launch")
    if not target.parent.is_dir():
        raise PlacerError(
            f"cannot write '{path}': its parent folder does not exist",
            "make it first, or choose another",
        )
    return target


def _keep(source: str, copy: str) -> str:
    """Give a file a second name in the new folder: owner and writers stay, nothing is read."""
    try:
        os.link(source, copy, follow_symlinks=False)
    except OSError:  # a file system without links, or another owner's file
        shutil.copy2(source, copy, follow_symlinks=False)
    return copy


def _write(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)  # a link is replaced, never followed
    flags, mode = os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o777 if file.suffix == ".sh" else 0o666
    with os.fdopen(os.open(file, flags, mode), "w", encoding="utf-8", newline="") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _put_in_place(beside: Path, target: Path) -> None:
    """Exchange the folders in one step where the system can; else the old one can come back."""
    if not target.exists():
        beside.rename(target)
        return
    if exchange_names(beside, target):
        return
    old = target.with_name(f"{_old_names(target)}{secrets.token_hex(4)}")
    target.replace(old)
    try:
        beside.rename(target)
    except OSError:
        old.replace(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _restore(target: Path) -> None:
    """Bring back a folder whose replacement was killed half way, or remove the rest of it."""
    for old in sorted(target.parent.glob(f"{escape(_old_names(target))}*")):
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(target)


def _old_names(target: Path) -> str:
    return f".{target.name}.old{TEMPORARY}"
