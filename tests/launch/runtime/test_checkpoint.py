"""Checkpoints: a clean resume is bit-equal, and what is not of this run is refused in one line."""

import hashlib
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs gloo", allow_module_level=True)
from forked_ranks import ran  # noqa: E402
from plain_torch import digests  # noqa: E402
from run_plans import A, B, document, islands  # noqa: E402
from torch.distributed.checkpoint.api import CheckpointException  # noqa: E402

from placer.errors import PlacerError  # noqa: E402
from placer.launch.runtime.training.checkpoint import Checkpoints, _cause, _loss  # noqa: E402

torch.set_num_threads(1)
STRATEGIES = {
    "all-reduce": document("all-reduce", (A, 1), (B, 1)),
    "hsdp": islands("all-reduce", (A, 1, 2), (B, 1, 2), inner={"sharding": "zero-3"}),
    "late": document("all-reduce", (A, 1), (B, 1), overlap=True),
    "server": document("parameter-server", (A, 1), (B, 1)),
    "averaging": document("model-averaging", (A, 1), (B, 1), local_steps=2),
    "diloco": document("diloco", (A, 1), (B, 1), local_steps=2, compression="int8"),
    "streaming": document(
        "streaming-diloco", (A, 1), (B, 1), local_steps=4, compression="sparse", overlap=True
    ),
}


FULL = OSError(28, "No space left on device")
OVER_IT = RuntimeError("PyTorchStreamWriter failed")
OVER_IT.__cause__ = FULL
AFTER_IT = RuntimeError("another try failed")
AFTER_IT.__context__ = OVER_IT


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FULL, "No space left on device"),
        (OVER_IT, "No space left on device"),
        (AFTER_IT, "No space left on device"),
        (CheckpointException("", {1: (AFTER_IT, None)}), "No space left on device"),
        (pickle.UnpicklingError("its metadata names os.system"), "its metadata names os.system"),
        (OSError("of no number"), "of no number"),
        (RuntimeError("sizes\n  differ " + "x" * 200), "sizes differ " + "x" * 147),
    ],
)
def test_a_checkpoint_that_fails_says_what_the_system_said(error: Any, words: str) -> None:
    """What torch puts over it is left out, on whichever rank; else its first 160 characters. Only
    words of a connection tell of a lost process.
    """
    assert _cause(error) == words
    assert _loss(error) is None
    gone = _loss(RuntimeError("[pair.cc:547] Connection closed by peer"))
    assert str(gone) == "rank None: [pair.cc:547] Connection closed by peer"


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_clean_resume_is_bit_equal(tmp_path: Path, name: str) -> None:
    """Eight steps at once, and four and four: momentum, errors of compression and all. What is late
    is applied before a checkpoint, so both have one after step 4.
    """
    if name in ("diloco", "streaming"):
        pytest.importorskip("torchft")
    told = STRATEGIES[name]
    whole = ran(tmp_path / "whole", told, steps=8, checkpoint_every=4)
    ran(tmp_path / "parts", told, steps=4, checkpoint_every=4)
    again = ran(tmp_path / "parts", told, steps=8, checkpoint_every=4, resume=True)
    assert {r["start"] for r in again if r["kind"] == "ready"} == {4}
    assert {r["steps"] for r in again if r["kind"] == "end"} == {4}  # not the four before
    assert len(digests(again, 2)) == 1
    assert digests(again, 2) == digests(whole, 2)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints before steps 4 and 6 of a run; a folder of them."""
    folder = tmp_path_factory.mktemp("kept")
    ran(folder, document("all-reduce", (A, 1), (B, 1)), checkpoint_every=4)
    return folder / "checkpoints"


@pytest.fixture
def newest(tmp_path: Path, kept: Path) -> Path:
    """The newest of them in a copy, which a test may change."""
    shutil.copytree(kept, tmp_path / "checkpoints")
    return tmp_path / "checkpoints" / "step-00000006" / "world-0"


def resumed(folder: Path, told: dict[str, Any] | None = None, **other: Any) -> Any:
    """Go on from the checkpoints of a folder."""
    told = told or document("all-reduce", (A, 1), (B, 1))
    return ran(folder, told, steps=8, resume=True, **other)


@pytest.mark.parametrize(
    ("told", "other", "word"),
    [
        (document("all-reduce", (A, 1), (B, 1), target_batch_size=26), {}, "plan"),
        (document("all-reduce", (A, 1), (B, 1)), {"seed": 1}, "seed"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(
    tmp_path: Path, newest: Path, told: dict[str, Any], other: dict[str, Any], word: str
) -> None:
    """Another plan or seed: the file says whose it is."""
    with pytest.raises(PlacerError, match=f"has another {word} than this run") as caught:
        resumed(tmp_path, told, **other)
    assert caught.value.hint == "choose another --out, or run without --resume"


def test_the_checkpoint_of_other_ranks_is_refused(tmp_path: Path, newest: Path) -> None:
    """Folders of two machines that were exchanged, or another number of processes."""
    path = newest / "identity.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "ranks": [[1, 0], [0, 0]]}))
    with pytest.raises(PlacerError, match="has another ranks than this run"):
        resumed(tmp_path)


@pytest.mark.parametrize("suffix", [".distcp", ".metadata"])
def test_a_flipped_byte_is_refused(tmp_path: Path, newest: Path, suffix: str) -> None:
    """In the tensors or in the table of contents, which is not read before."""
    path = next(path for path in newest.iterdir() if path.name.endswith(suffix))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(PlacerError, match=r"step-00000006/world-0 is damaged: ") as caught:
        resumed(tmp_path)
    assert "an older one is used then" in caught.value.hint


def test_code_in_the_metadata_is_not_run(tmp_path: Path, newest: Path) -> None:
    """A pickle that would write a file, with a digest that fits it."""

    class Planted:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "was-run",))

    planted = pickle.dumps(Planted())
    (newest / ".metadata").write_bytes(planted)
    identity = json.loads((newest / "identity.json").read_text())
    identity["content"][".metadata"] = hashlib.sha256(planted).hexdigest()
    (newest / "identity.json").write_text(json.dumps(identity))
    with pytest.raises(PlacerError, match="is not of this model: its metadata names"):
        resumed(tmp_path)
    assert not (tmp_path / "was-run").exists()


def test_a_foreign_folder_is_refused(tmp_path: Path, newest: Path) -> None:
    """Files without an identity are no checkpoint: of another program, or of a killed attempt."""
    for path in newest.parents[1].glob("*/world-0/identity.json"):
        path.unlink()
    with pytest.raises(PlacerError, match=r"no checkpoint in '.*' that all workers have"):
        resumed(tmp_path)
    begun = resumed(tmp_path, may_begin=True)
    assert {r["start"] for r in begun if r["kind"] == "ready"} == {0}


def test_another_address_and_the_newest_two(tmp_path: Path) -> None:
    """Fsspec opens the address, here file://; of eight steps the last two checkpoints stay."""
    address = f"file://{tmp_path}/bucket/run"
    told = document("none", (A, 1))
    ran(tmp_path, told, steps=8, checkpoints=address, checkpoint_every=2)
    assert Checkpoints(address, 0, {}).steps() == {6, 8}
    again = ran(tmp_path, told, steps=9, checkpoints=address, resume=True)
    assert {r["start"] for r in again if r["kind"] == "ready"} == {8}


def test_an_address_that_nothing_opens(tmp_path: Path) -> None:
    """One line, with what to install."""
    with pytest.raises(PlacerError, match="cannot keep checkpoints in 'nowhere://bucket'"):
        ran(tmp_path, document("none", (A, 1)), checkpoints="nowhere://bucket")


def test_regions_that_drift_apart_keep_more(tmp_path: Path) -> None:
    """Two are kept; of asgd-ga ten, as another region may have come no further."""
    for strategy, left in (("all-reduce", {11, 12}), ("asgd-ga", {*range(3, 13)})):
        place = Checkpoints(str(tmp_path / strategy), 0, {"strategy": strategy})
        for step in range(1, 13):
            folder = tmp_path / strategy / f"step-{step:08d}" / "world-0"
            folder.mkdir(parents=True)
            (folder / "identity.json").write_text("{}")
        place._tidy()
        assert place.steps() == left
