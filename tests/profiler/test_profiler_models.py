"""Built-in models of the profiler have the sizes and the arithmetic of the models that they stand
for.
"""

from __future__ import annotations

import copy
import itertools
import math
import os
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from conftest import ROOT  # noqa: E402
from placer.errors import PlacerError  # noqa: E402
from placer.profiler.builtin import BUILTINS, builtin  # noqa: E402
from placer.profiler.builtin.resnet import resnet  # noqa: E402
from placer.profiler.builtin.transformer import Encoder, masked_language_model  # noqa: E402
from placer.workload.profile import load_profile  # noqa: E402

torch.set_num_threads(1)
META, CPU = torch.device("meta"), torch.device("cpu")
PUBLISHED = {
    "resnet50-like": (25_557_032, 161, 8.18e9),
    "bert-base-like": (109_514_298, 202, 28.50e9),
    "transformer-560m": (560_142_482, 394, 144.7e9),
    "lstm": (19_780_400, 11, 0.928e9),
    "gnn": (1_885_206, 71, 0.0936e9),
    "cnn-small": (272_474, 65, 0.0816e9),
    "transformer-small": (11_201_594, 74, 1.43e9),
}
"""Parameters, tensors and FLOPs (two for a multiply-add) of the forward pass of a sample.

Parameters: torchvision's ResNet-50; Hugging Face's BertForMaskedLM of bert-base-uncased and
bert-mini; XLM-R large as in the artifact of Erben et al.; OGB's table for GIN on ogbg-molhiv; He et
al. give 0.27 M for ResNet-20, Zaremba et al. 20 M for the medium LSTM. FLOPs: ResNet-50 has 4.09
GMACs (torchvision), ResNet-20 40.8 MMACs; BERT base 22.4 G for 128 tokens (Sun et al., MobileBERT:
22.5 G) and 2 x 128 x (768^2 + 768 x 30522) = 6.15 G for the logits of all tokens; the LSTM 2 x 35 x
(2 x 8 x 650^2 + 650 x 10000) = 0.928 G; GIN 5 x 26 x 2 x 2 x 300 x 600 = 93.6 M.
"""


def sizes(module: Any) -> tuple[int, int]:
    """Elements and number of parameters, each tensor once."""
    return sum(p.numel() for p in module.parameters()), len(list(module.parameters()))


@pytest.mark.parametrize("name", BUILTINS)
def test_sizes_and_arithmetic_are_the_published_ones(name: str) -> None:
    """Exact parameters and tensors; FLOPs of one sample within 0.5 %, on the meta device."""
    with META:
        workload = builtin(name)
        with FlopCounterMode(display=False) as counter:
            workload.loss(workload.module, workload.batch(2, META))
    parameters, tensors, flops = PUBLISHED[name]
    assert sizes(workload.module) == (parameters, tensors)
    assert counter.get_total_flops() / 2 == pytest.approx(flops, rel=5e-3)


@pytest.mark.parametrize("name", ["lstm", "gnn", "cnn-small", "transformer-small"])
def test_a_few_steps_learn_the_batch(name: str) -> None:
    """Every parameter gets a gradient, and the loss of one batch falls in five steps."""
    torch.manual_seed(0)
    workload = builtin(name)
    batch = workload.batch(2, CPU)
    optimizer = workload.optimizer(workload.module.parameters())
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss: Any = workload.loss(workload.module, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(p.grad is not None for p in workload.module.parameters())
    assert losses[-1] < losses[0]


def test_first_loss_is_that_of_guessing() -> None:
    """An untrained masked language model is right as often as chance: ln 30522 = 10.33, within what
    random logits add.
    """
    torch.manual_seed(0)
    workload = builtin("transformer-small")
    with torch.no_grad():
        assert workload.loss(workload.module, workload.batch(4, CPU)).item() == pytest.approx(
            math.log(30522), abs=0.3
        )


@pytest.mark.parametrize("name", ["lstm", "gnn", "cnn-small", "transformer-small"])
def test_batches_repeat_and_leave_the_programs_random_numbers_alone(name: str) -> None:
    """Two batches of a size are equal; 3 samples are 3 (molecules: 78 atoms)."""
    workload = builtin(name)
    state = torch.get_rng_state()
    first, second = workload.batch(3, CPU), workload.batch(3, CPU)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert first[0].shape[0] == (78 if name == "gnn" else 3)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("cnn-small", "an input of 3 x 32 x 32"),
        ("transformer-small", "an input of 64 integers"),
        ("lstm", "an input of 35 integers"),
        ("gnn", None),
    ],
)
def test_a_sample_is_a_row_of_the_first_tensor(name: str, sample: str | None) -> None:
    """64 and 35 words; of molecules the rows are atoms, so nobody knows."""
    assert builtin(name).sample(META) == sample


@pytest.mark.parametrize("name", ["lstm", "gnn", "cnn-small", "transformer-small"])
def test_models_train_under_bf16_and_can_be_copied(name: str) -> None:
    """Autocast mixes types (index_add wants one); a copy has the same sizes and shares nothing."""
    workload = builtin(name)
    module = copy.deepcopy(workload.module)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss: Any = workload.loss(module, workload.batch(2, CPU))
    loss.backward()
    assert math.isfinite(loss.item())
    assert sizes(module) == sizes(workload.module)
    assert all(p.grad is None for p in workload.module.parameters())


def test_molecules_keep_to_themselves() -> None:
    """Edges join atoms of one molecule, each bond in both directions: a molecule's logit does not
    depend on its neighbours.
    """
    workload = builtin("gnn")
    atoms, edges, bonds, _ = workload.batch(5, CPU)
    assert torch.equal(edges[0] // 26, edges[1] // 26)
    assert edges.shape == (2, 5 * 56)
    assert bonds.shape == (5 * 56, 3)
    assert {tuple(edge) for edge in edges.T.tolist()} == {
        tuple(edge[::-1]) for edge in edges.T.tolist()
    }
    workload.module.eval()
    with torch.no_grad():
        together = workload.module(atoms, edges, bonds)
        alone = workload.module(atoms[:26], edges[:, :56], bonds[:56])
    torch.testing.assert_close(together[:1], alone, rtol=1e-4, atol=1e-5)


def test_names_are_known_without_torch() -> None:
    """Modules of the profiler are imported, and models listed, without PyTorch; only making one
    needs it.
    """
    code = """
import sys
sys.modules["torch"] = None
from placer.errors import PlacerError
from placer.profiler import builtin, gradients
from placer.profiler import huggingface
print(len(builtin.BUILTINS))
try:
    builtin.builtin("gnn")
except PlacerError as error:
    print(error.hint)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.splitlines() == [
        str(len(BUILTINS)),
        "install it: pip install 'placer-advisor[profile]'",
    ]


def test_an_unknown_name_is_said_with_the_nearest() -> None:
    """'resnet50' is no built-in model, 'resnet50-like' is."""
    with pytest.raises(PlacerError, match="unknown built-in model 'resnet50'") as found:
        builtin("resnet50")
    assert "resnet50-like" in found.value.hint


@pytest.mark.parametrize(
    ("profile", "blocks", "bottleneck", "widening", "exact"),
    [
        ("resnet18", (2, 2, 2, 2), False, 1, 11_689_512),
        ("resnet50", (3, 4, 6, 3), True, 1, 25_557_032),
        ("resnet152", (3, 8, 36, 3), True, 1, 60_192_808),
        ("wide-resnet101", (3, 4, 23, 3), True, 2, 126_886_696),
    ],
)
def test_shipped_residual_networks(
    profile: str, blocks: tuple[int, ...], bottleneck: bool, widening: int, exact: int
) -> None:
    """Shipped counts are the paper's, rounded to 0.1 M; tensors are 3 for each convolution and its
    norm, and 2 for the last layer.
    """
    with META:
        parameters, tensors = sizes(resnet(blocks, bottleneck, widening))
    assert parameters == exact
    assert load_profile(profile).parameters == round(exact, -5)
    assert load_profile(profile).tensors == tensors


@pytest.mark.parametrize(
    ("profile", "layers", "width", "vocabulary"),
    [
        ("roberta-base", 12, 768, 50265),
        ("roberta-large", 24, 1024, 50265),
        ("roberta-xlm", 24, 1024, 250002),
    ],
)
def test_shipped_encoders(profile: str, layers: int, width: int, vocabulary: int) -> None:
    """RoBERTa has 514 places and one kind of segment; 16 tensors a layer and 10 around them."""
    shape = Encoder(
        layers=layers, width=width, heads=width // 64, vocabulary=vocabulary, positions=514, kinds=1
    )
    with META:
        assert sizes(masked_language_model(shape)) == (
            load_profile(profile).parameters,
            load_profile(profile).tensors,
        )
    assert load_profile(profile).tensors == 16 * layers + 10


def test_shipped_convnext() -> None:
    """ConvNeXt-L by layer formulas (Liu et al., CVPR 2022): blocks (3, 3, 27, 3) of widths 192 to
    1536, 197,767,336 parameters.

    A block: scale, 7 x 7 depthwise convolution, layer norm, and two linear layers of 4 widths;
    between stages a norm and a 2 x 2 convolution; a 4 x 4 convolution and a norm first, a norm and
    a linear layer last.
    """
    widths, blocks = (192, 384, 768, 1536), (3, 3, 27, 3)
    parameters = (
        3 * 16 * widths[0] + widths[0] + 2 * widths[0] + 2 * widths[-1] + widths[-1] * 1000 + 1000
    )
    parameters += sum(
        n * (w + 49 * w + w + 2 * w + 8 * w * w + 5 * w)
        for n, w in zip(blocks, widths, strict=True)
    )
    parameters += sum(2 * a + 4 * a * b + b for a, b in itertools.pairwise(widths))
    assert parameters == 197_767_336
    assert load_profile("convnext-large").parameters == round(parameters, -5)
    assert load_profile("convnext-large").tensors == 9 * sum(blocks) + 4 * 3 + 4 + 4
