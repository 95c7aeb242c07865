"""Functions that a module cannot have, seen in its source alone; and what placer does for those of
a user that leave a part out.
"""

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from placer.errors import PlacerError
from placer.profiler.target import check_source, default_loss, moved


def checked(folder: Path, source: str, function: str) -> None:
    """Check a function in a module of this source."""
    path = folder / "mine.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("mine", path)
    assert spec is not None
    check_source(spec, function)


def test_a_function_that_is_nowhere_is_refused_with_those_that_are(tmp_path: Path) -> None:
    """Sorted, those of the module alone."""
    source = "import os\ndef zeta():\n    def inner(): ...\nasync def alpha(): ...\n"
    with pytest.raises(PlacerError, match="mine has no function 'f'") as refused:
        checked(tmp_path, source, "f")
    assert refused.value.hint == "it has: alpha, zeta"
    with pytest.raises(PlacerError) as refused:
        checked(tmp_path, "x = 1", "f")
    assert refused.value.hint == "it has: none"


def test_a_source_that_is_no_python_is_refused(tmp_path: Path) -> None:
    """With the word of Python, and nothing that a traceback would add."""
    with pytest.raises(PlacerError, match="cannot import mine: SyntaxError: "):
        checked(tmp_path, "def f(:", "f")


@pytest.mark.parametrize(
    ("module", "inputs", "loss"),
    [
        (lambda x: 2 * x, lambda t: t, 4.0),
        (lambda x, y: x + y, lambda t: (t, 2 * t), 6.0),
        (lambda x, y: x + y, lambda t: [t, t], 4.0),
        (lambda *, x, y: x - y, lambda t: {"x": 3 * t, "y": t}, 4.0),
        (lambda x: [(x, 9 * x), 7 * x], lambda t: t, 2.0),
        (lambda x: SimpleNamespace(loss=5 * x, logits=x), lambda t: t, 10.0),
    ],
)
def test_without_a_loss_the_mean_of_the_result_is_taken(
    module: Any, inputs: Any, loss: float
) -> None:
    """Of whole numbers 1 and 3: the first of several results, or the module's own loss; a batch is
    one argument, several, or some by name.
    """
    torch = pytest.importorskip("torch")
    assert default_loss(module, inputs(torch.tensor([1, 3]))).item() == loss


def test_all_tensors_of_a_batch_are_moved() -> None:
    """However deep in lists, tuples and mappings; what else there is stays."""
    torch = pytest.importorskip("torch")
    one = torch.ones(2)
    batch = moved({"x": [one, (one, "word")], "y": one, "n": 3}, torch.device("meta"))
    assert (type(batch["x"][1]), batch["x"][1][1], batch["n"]) == (tuple, "word", 3)
    assert all(part.is_meta for part in (batch["x"][0], batch["x"][1][0], batch["y"]))
