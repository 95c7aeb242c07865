"""Built-in models of the profiler have the sizes and the arithmetic of the models that they stand
for.
"""

import copy
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from placer.profiler.builtin import BUILTINS, builtin  # noqa: E402

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


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize("name", ["lstm", "gnn", "cnn-small", "transformer-small"])
def test_models_train_under_bf16_and_can_be_copied(name: str) -> None:
    """Autocast mixes types (index_add wants one); a copy has the same sizes and shares nothing.
    Without oneDNN, which has no LSTM in bf16 on CPUs without AVX-512.
    """
    workload = builtin(name)
    module = copy.deepcopy(workload.module)
    plain = torch.backends.mkldnn.flags(enabled=False)
    with plain, torch.autocast("cpu", dtype=torch.bfloat16):
        loss: Any = workload.loss(module, workload.batch(2, CPU))
    loss.backward()
    assert math.isfinite(loss.item())
    assert sizes(module) == sizes(workload.module)
    assert all(p.grad is None for p in workload.module.parameters())
