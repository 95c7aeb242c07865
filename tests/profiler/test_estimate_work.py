"""What is counted of a step: attention, autocast, layouts, groups, caches."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from placer.profiler.devices import device  # noqa: E402
from placer.profiler.estimate.counters import traffic_counter  # noqa: E402
from placer.profiler.estimate.counting import count_work  # noqa: E402
from placer.profiler.estimate.throughput import constants, step_time  # noqa: E402
from placer.profiler.workload import Workload  # noqa: E402

MB = 1_000_000


def workload(module: Any, shape: tuple[int, ...], channels_last: bool = False) -> Workload:
    """A model whose loss is the sum of its results."""
    layout = torch.channels_last if channels_last else torch.contiguous_format

    def batch(samples: int, where: Any) -> Any:
        data = torch.zeros(samples, *shape, device=where)
        return data.to(memory_format=layout) if len(shape) == 3 else data

    return Workload(
        name="net",
        title="net",
        family="cnn",
        module=module.to(memory_format=layout),
        batch=batch,
        loss=lambda net, data: net(data).sum(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        source="-",
    )


class Attention(nn.Module):  # type: ignore[misc]
    """16 heads of 64 over 2,048 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Any) -> Any:
        """Attend."""
        heads = (x * self.scale).unflatten(-1, (16, 64)).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(heads, heads, heads)


@pytest.fixture
def separate_kernels() -> Iterator[None]:
    """Attention without fused kernels, as users switch them off."""
    before = (
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
    )
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    yield
    torch.backends.cuda.enable_flash_sdp(before[0])
    torch.backends.cuda.enable_mem_efficient_sdp(before[1])


def test_attention_writes_no_product_of_all_tokens() -> None:
    """Of 8 texts, all of query, key, value and result take 16.8 M x 4 bytes = 67 MB, each product
    of all tokens with all 2.1 GB. FLOPs are those of the products: forward 2 x 2 x 8 x 16 x 2048^2
    x 64, backward twice that.
    """
    work = count_work(workload(Attention(), (2048, 1024)), 8, "fp32")
    products = 2 * 2 * 8 * 16 * 2048**2 * 64
    assert work.flops == 3 * products
    assert work.moved_bytes < 2100 * MB


@pytest.mark.usefixtures("separate_kernels")
def test_attention_of_separate_kernels_is_counted_as_such() -> None:
    """With fused kernels off, products of all tokens are written and read: at least 2.1 GB, forward
    and backward, five times.
    """
    work = count_work(workload(Attention(), (2048, 1024)), 8, "fp32")
    assert work.moved_bytes > 5 * 2100 * MB
    assert work.flops == 3 * 2 * 2 * 8 * 16 * 2048**2 * 64


def test_autocast_halves_products_and_keeps_norms_in_fp32() -> None:
    """A linear layer of 4,096 rows moves half of the bytes in half precision, its cast weights and
    gradients besides; layer norm moves FP32 as before. FLOPs stay.
    """
    linear, norm = nn.Linear(4096, 4096, bias=False), nn.LayerNorm(4096)
    both = workload(nn.Sequential(linear, norm), (4096,))
    full, half = (count_work(both, 8192, precision) for precision in ("fp32", "bf16"))
    assert half.flops == full.flops
    assert half.half
    assert not full.half
    assert half.product_bytes == pytest.approx(full.product_bytes / 2, rel=0.01)
    assert half.kernels > full.kernels  # casts
    others = [work.moved_bytes - work.product_bytes for work in (full, half)]
    assert others[1] > others[0]


@pytest.mark.parametrize(
    ("groups", "channels", "channels_last", "with_tensor_cores"),
    [
        (128, 128, False, False),  # depthwise
        (32, 128, False, True),
        (32, 128, True, True),  # 4 channels a group: ResNeXt 32 x 4d
        (2, 128, True, False),  # 64 channels a group
        (15, 120, True, False),  # 8 channels a group that fill no multiple of 64
    ],
)
def test_groups_with_and_without_tensor_cores(
    groups: int, channels: int, channels_last: bool, with_tensor_cores: bool
) -> None:
    """FLOPs of convolutions in groups, 3 x 3: 2 x 9 x channels / groups for each element, and as
    many for the weights; the input needs no gradient.
    """
    net = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False)
    work = count_work(workload(net, (channels, 14, 14), channels_last), 2, "fp16")
    flops = 2 * 2 * 9 * (channels // groups) * channels * 14 * 14 * 2
    found = (work.blocked_flops, work.grouped_flops)
    assert found == ((flops, 0) if with_tensor_cores else (0, flops))
    assert work.flops == flops


def test_a_transposed_convolution_multiplies_each_of_its_inputs() -> None:
    """8 x 10 x 10 inputs of 3 samples with 4 x 2 x 2 weights each, and as many for the weights."""
    net = nn.ConvTranspose2d(8, 8, 2, stride=2, groups=2, bias=False)
    work = count_work(workload(net, (8, 10, 10)), 3, "fp16")
    assert work.flops == work.blocked_flops == 2 * 2 * (3 * 8 * 10 * 10) * (4 * 2 * 2)


def meta(*shape: int, dtype: Any = torch.float32) -> Any:
    """A tensor without values."""
    return torch.empty(*shape, device="meta", dtype=dtype)


VECTOR, PICTURES, KERNEL = meta(6_000_000), meta(10, 64, 100, 100), meta(64, 64, 3, 3)
"""24 and 25.6 MB, and weights of 147,456 bytes, which are read in full."""
CHANNELS_LAST = PICTURES.to(memory_format=torch.channels_last)
NORM, GRADIENTS = (True, 0.1, 1e-5), ([0], *[[1, 1]] * 3, False, [0, 0], 1)


@pytest.mark.parametrize(
    ("kernel", "moved", "largest", "product", "relaid"),
    [
        (lambda: VECTOR + meta(6_000_000), 72e6, 24e6, 0, 0),
        (lambda: VECTOR + VECTOR, 48e6, 24e6, 0, 0),
        (lambda: meta(1_000_000) + meta(1_000_000), 4e6, 4e6, 0, 0),
        (lambda: meta(2_000_000) + meta(2_000_000), 16e6, 8e6, 0, 0),
        (lambda: meta(10, 600_000) + meta(600_000).expand(10, -1), 48.8e6, 24e6, 0, 0),
        (
            lambda: nn.functional.embedding(meta(250_000, dtype=torch.long), meta(100_000, 64)),
            *(128e6 + 2e6 / 3, 64e6, 0, 0),
        ),
        (lambda: meta(3000, 2000) @ meta(2000, 3000), 84e6, 36e6, 84e6, 0),
        (
            lambda: torch.native_batch_norm(PICTURES, *[None] * 4, *NORM),
            *(3 * 25.6e6 + 2 * 256 / 3, 25.6e6, 0, 0),
        ),
        (
            lambda: nn.functional.conv2d(PICTURES, KERNEL, padding=1),
            *(51.2e6 + 147_456, 25.6e6, 51.2e6 + 147_456, 51.2e6),
        ),
        (
            lambda: nn.functional.conv2d(CHANNELS_LAST, KERNEL, padding=1),
            *(51.2e6 + 147_456, 25.6e6, 51.2e6 + 147_456, 0),
        ),
        (
            lambda: torch.ops.aten.convolution_backward(
                PICTURES, PICTURES, KERNEL, *GRADIENTS, [True, True, False]
            ),
            *(2 * (51.2e6 + 147_456), 25.6e6, 2 * (51.2e6 + 147_456), 102.4e6),
        ),
        (
            lambda: torch.ops.aten.convolution_backward(
                PICTURES, PICTURES, KERNEL, *GRADIENTS, [False, True, False]
            ),
            *(51.2e6 + 147_456, 147_456, 51.2e6 + 147_456, 51.2e6),
        ),
    ],
)
def test_bytes_of_a_kernel(
    kernel: Callable[[], Any], moved: float, largest: float, product: float, relaid: float
) -> None:
    """What it reads, each argument once, and what it writes; of 4 MB a third comes from memory, of
    8 MB two thirds, of 12 MB all. A row that is repeated lies there once; of a table as much is
    read as is picked; a norm reads its pictures twice. Each gradient of a convolution reads both of
    its arguments. A view moves nothing.
    """
    with traffic_counter([KERNEL]) as found:
        kernel()
        torch.empty_like(VECTOR).view(2, -1)
    assert (found.moved_bytes, found.largest_bytes) == (pytest.approx(moved), largest)
    assert (found.product_bytes, found.relaid_bytes) == (pytest.approx(product), relaid)


@pytest.mark.parametrize(
    ("gpu", "precision", "channels_last", "batch", "published"),
    [
        ("V100", "fp16", True, 256, 1200),  # NVIDIA DeepLearningExamples, ResNet-50 v1.5, DGX-1
        ("V100", "fp32", False, 128, 367),
        ("H100-PCIe", "tf32", False, 128, 1248),  # Lambda, deeplearning-benchmark, FP32 scripts
    ],
)
def test_published_speeds_of_resnet50(
    gpu: str, precision: str, channels_last: bool, batch: int, published: float
) -> None:
    """Single published figures are met within a factor of 1.25."""
    from placer.profiler.builtin import resnet

    its = device(gpu)
    assert its is not None
    with torch.device("meta"):
        net = resnet((3, 4, 6, 3))
    work = count_work(workload(net, (3, 224, 224), channels_last), batch, precision)
    found = step_time(work, its, "cnn", precision, constants())
    assert found is not None
    assert batch / found.total == pytest.approx(published, rel=0.25)
