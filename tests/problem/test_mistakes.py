"""Words that mean nothing or contradict each other: each is refused before a search."""

from __future__ import annotations

from typing import Any

import pytest

import placer
from placer.errors import PlacerError

STAY = ["gcp/us-central1=1M:stay", "gcp/us-west1=1M:stay"]
SITE = "onprem/erben-eu"
ROBERTA = {"model": "roberta-xlm", "catalog": "erben-2023", "budget": "5/h"}
RESNET = {"model": "resnet50", "catalog": "erben-2023"}
TODAY = {"model": "roberta-xlm", "budget": "5/h"}
LLAMA = {"model": "llama-3.1-8b"}
MISTAKES: list[tuple[dict[str, Any], list[tuple[dict[str, Any], str]]]] = [
    (
        ROBERTA,
        [
            ({"budget": "200usd"}, "a total without a number of samples"),
            ({"samples": "many"}, "samples 'many' is not a number"),
            ({"samples": "0"}, "must be above zero"),
            ({"samples": "1M", "startup": "soon"}, "'soon' is not a time"),
            ({"samples": "1M", "startup": "-5min"}, "above"),
            ({"tbs": "64K..8K"}, "tbs 64000..8000"),
            ({"tbs": "8K.."}, "has an open end"),
            ({"tbs": "8K..x"}, "tbs 'x' is not a number"),
            ({"critical_batch": "0"}, "must be above zero"),
            ({"critical_batch": "20K"}, "changes nothing"),
            ({"gpu": "H100"}, "rents no H100"),
            ({"places": "gcp/us-centrall1"}, "unknown place 'gcp/us-centrall1'"),
            ({"zones": "two"}, "unknown zones 'two'"),
            ({"data": "b3"}, "unknown store 'b3'"),
            ({"aggregator": "aws/us-west-2"}, "has no functions"),
            ({"links": "gcp/us-west1=1Gb/s"}, "is not a measured link"),
            ({"links": "gcp/us-west1:aws/us-west-2=250 gb/s"}, "ambiguous"),
            ({"links": "gcp/us-west1:aws/us-west-9=1Gb/s"}, "unknown place"),
            ({"budget": "120"}, "per hour or total?"),
            ({"budget": "nan"}, "not an amount"),
            ({"workers": "1.5"}, "not a range"),
            ({"min_throughput": "400"}, "not samples per time"),
            ({"gpu": " "}, "gpu ' ' is empty"),
            ({"places": ","}, "is empty"),
            ({"exchange": "all-reduce", "storage": "b2"}, "no aggregator and no store"),
            ({"workers": "9" * 5000}, "not a range"),
            ({"tbs": "1,2,3"}, "not a number"),
            ({"min_throughput": "400ki/s"}, "unknown prefix"),
            ({"max_share": "50%/city"}, "area"),
            ({"max_share": "150%"}, "is not a share"),
            ({"max_share": "100%"}, "not between 0 and 1"),
            ({"max_share": ["50%", "40%/region"]}, "two shares for one region"),
            ({"max_share": "50%/zone", "zones": "spread"}, "which of them is in which zone"),
            ({"on_demand_floor": "25%", "market": "spot"}, "are all spot"),
            ({"on_demand_floor": "0%"}, "on_demand_floor is 0"),
        ],
    ),
    (
        RESNET,
        [
            ({"use": "*=1xRTX800"}, "a similar device exists: 'RTX8000'"),
            ({"use": "gcp=1xV100:4"}, "rents no machine with V100:4"),
            ({"use": "gcp/us-west1=T4"}, "names no machines"),
            ({"use": "gcp/us-west1=0xT4"}, "at least 1 is needed"),
            ({"use": ["gcp=1xT4", "gcp/*=2xT4"]}, "is given twice"),
            ({"use": "europe=1xT4"}, "a continent is not a pattern"),
            ({"use": ""}, "use '' is empty"),
            ({"use": "azure=1xA10"}, "rents none there; it has T4:on-demand, T4:spot"),
            ({"use": "gcp/us-west1", "not_places": "gcp"}, "gcp/us-west1 is excluded by --not-in"),
            ({"use": SITE, "places": "gcp"}, "onprem/erben-eu is not in --in"),
            (
                {"use": "*=1xRTX8000"},
                "machines of your own, which are used only where their site is named",
            ),
            ({"use": f"{SITE}=2xRTX8000"}, "only 1 exist"),
            ({"use": "gcp/us-west1=9xT4:spot", "quota": 8}, "the quota allows only 8"),
            ({"use": "gcp=5xT4", "workers": "1..4"}, "at most 4 workers"),
            ({"use": "gcp=5xT4", "tbs": 4}, "at most 4 samples a step"),
            (
                {"use": ["gcp=3xT4", "aws=3xT4"], "workers": "1..4"},
                "6 machines must be used, but at most 4 workers",
            ),
            ({"use": ["gcp/us-west1", "aws/us-west-2"], "regions": 1}, "at most 1 regions"),
            ({"use": "gcp=1xT4", "gpu": "A10"}, "T4 is not among --gpu A10"),
            (
                {"use": "gcp=1xT4", "data": "aws/us-west-2=1M:stay"},
                "workers are only where the data stays",
            ),
            ({"use": 3}, "use 3 is of type int"),
            ({"data": STAY, "regions": 1}, "data stays in 2 places, but at most 1 regions"),
            ({"data": STAY, "workers": 1}, "at most 1 workers"),
            ({"data": STAY, "tbs": 1}, "at most 1 samples a step"),
            ({"data": STAY[:1], "regions": 2}, "2 regions are wanted"),
            (
                {"data": STAY, "keep": ["gradients=gcp/us-west1", "checkpoints=gcp/us-west1"]},
                "lets no exchange pass between them",
            ),
            ({"data": "b2", "keep": "raw-data=backblaze"}, "raw-data must not leave backblaze"),
            ({"passes": 3}, "--passes 3 only applies with --data PLACE=N:move"),
            ({"data": "gcp/us-west1=1M:move", "passes": "1e-300"}, "passes is 1e-300"),
            ({"precision": "fp32"}, "precision 'fp32' does not apply to resnet50: its speeds"),
            ({"tp": 4, "microbatch": 7}, "tp '4' does not apply"),
            ({"machines_per_island": "2..4"}, "machines-per-island '2' does not apply"),
            ({"samples_to_target": "local-sgd=1.2"}, "which the request does not allow"),
            (
                {"samples_to_target": ["local-sgd=1.2", "local-sgd=1.3"], "local_steps": 4},
                "given twice",
            ),
            ({"local_steps": 600}, "nothing is known about how 600 local steps converge"),
            (
                {"compression": "int4"},
                "int4 loses too much of each gradient for exchanges in every",
            ),
            (
                {"compression": "sparse", "exchange": "local-sgd", "local_steps": 8},
                "sparse loses too much of each gradient for local-sgd",
            ),
            ({"exchange": "diloco", "overlap": True}, "diloco cannot overlap the next step"),
            ({"exchange": "streaming-diloco", "local_steps": 600}, "600 local steps converge"),
            ({"local_steps": "1..200000"}, "is above 100,000"),
            (
                {
                    "exchange": "parameter-server",
                    "aggregator": "gcp/us-west1",
                    "not_places": "gcp/us-west1",
                },
                "is excluded by --not-in",
            ),
            (
                {"exchange": "parameter-server", "aggregator": "onprem/erben-eu"},
                "rents no machine that could serve",
            ),
            ({"exchange": "hierarchical"}, "the exchange hierarchical cannot run"),
            ({"solver": None}, "solver None is not a name"),
            ({"time_limit": -1}, "-1"),
            ({"seed": "x"}, "seed 'x'"),
        ],
    ),
    (
        TODAY,
        [
            ({"data": "aws/us-east-1=2M"}, "does not say whether it may leave"),
            ({"data": "aws/us-east-1=0:stay"}, "samples"),
            ({"data": "aws/us-east-1=-5:stay"}, "samples"),
            ({"data": "aws/nowhere=2M:stay"}, "unknown place"),
            ({"data": ["b2", "aws/us-east-1=2M:stay"]}, "together with other data"),
            (
                {"data": "aws/us-east-1=2M:stay", "not_places": "aws"},
                "can be used nowhere: they must stay there",
            ),
            (
                {
                    "data": "aws/us-east-1=2M:move",
                    "places": "europe",
                    "keep": "raw-data=aws/us-east-1",
                },
                "must not leave aws/us-east-1",
            ),
            ({"keep": "gradients"}, "is not a rule"),
            ({"keep": "gradients=atlantis"}, "unknown place"),
            ({"passes": "many"}, "passes 'many' is not a number"),
            ({"passes": 0}, "passes is 0"),
            ({"local_steps": "8", "exchange": "central"}, "exchanges in every step"),
            ({"streams": 0}, "streams"),
            ({"overlap": True, "exchange": "central"}, "cannot overlap the next step"),
            ({"samples_to_target": "local-sgd"}, "samples to target 'local-sgd'"),
            ({"samples_to_target": "local-sgd=0"}, "samples to target of local-sgd is 0"),
            ({"samples_to_target": "auto=1"}, "unknown exchange 'auto'"),
            ({"interruption": "120%"}, "interruption '120%'"),
            ({"unavailable": "-1"}, "unavailable '-1'"),
        ],
    ),
    (
        LLAMA,
        [
            ({"seq_len": 0}, "seq-len '0'"),
            ({"seq_len": -1}, "seq-len '-1'"),
            ({"seq_len": 10**9}, "sequence length 1000000000"),
            ({"seq_len": "long"}, "seq-len 'long'"),
            ({"model": "gpt2", "seq_len": 2048}, "above the model's 1024 positions"),
            ({"tokens": "many"}, "tokens 'many'"),
            ({"tokens": "1.5"}, "not a whole number"),
            ({"lora": 10**9}, "rank 1,000,000,000 of adapters for a model of width 4,096"),
            ({"lora": 8, "qlora": 8}, "lora and qlora at once"),
            ({"tbs": "1Mtok..4Mtok"}, "a range in tokens"),
            ({"tbs": "0tok"}, "tbs '0tok'"),
            ({"model": "resnet50", "tokens": "10B"}, "resnet50 has no tokens"),
            ({"model": "resnet50", "lora": 8}, "resnet50 has no tokens"),
            ({"model": "roberta-xlm", "tokens": "1M"}, "roberta-xlm has no tokens"),
        ],
    ),
]
"""What is asked beside, wrong words, and what the error says of them; golden mistakes have more."""


@pytest.mark.parametrize(
    ("beside", "words", "says"), [(beside, *row) for beside, rows in MISTAKES for row in rows]
)
def test_words_that_cannot_be_meant(
    beside: dict[str, Any], words: dict[str, Any], says: str
) -> None:
    """It names the words, and what to write instead."""
    with pytest.raises(PlacerError) as caught:
        placer.recommend(**{**beside, **words})
    assert says in caught.value.message + caught.value.hint
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code in (2, 5)


def test_a_placement_by_hand_has_one_batch() -> None:
    """A range leaves the choice to a search."""
    with pytest.raises(PlacerError, match="is a range"):
        placer.estimate("roberta-xlm", "lambda/us-west-1=2xA10", tbs="8K..64K")
