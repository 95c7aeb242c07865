"""Data as people name it: an address of a store with a size, bytes in place of samples."""

import json
import re
from typing import Any

import pytest

from conftest import Run
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog
from placer.problem.words.data import store_named

advisor = Advisor("default")
WORKERS = ("--workers", "gcp/us-central1=4xT4:spot")


def wishes(**words: Any) -> Any:
    """The wishes of a question about ResNet-50."""
    return advisor.problem("resnet50", **words).requirements


@pytest.mark.parametrize(
    ("word", "place"),
    [
        ("s3://us-east-1", "aws/us-east-1"),
        ("S3://us-east-1/", "aws/us-east-1"),
        ("s3://us-east-1/images", "aws/us-east-1"),
        ("s3://my-bucket/images@us-east-1", "aws/us-east-1"),
        ("gs://us-central1", "gcp/us-central1"),
        ("az://eastus", "azure/eastus"),
        ("abfss://eastus", "azure/eastus"),
        ("b2://us-west", "backblaze/us-west"),
        ("aws/us-east-1", "aws/us-east-1"),
    ],
)
def test_addresses_of_stores(word: str, place: str, default: Catalog) -> None:
    """The scheme names the kind of store, the host or what follows @ its region."""
    assert store_named(word, default).place == place


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("s3://my-bucket", "buckets are not looked up", "s3://BUCKET@REGION"),
        ("s3://us-east-9", "'us-east-9' is not a region", "'us-east-2'"),
        ("s3://", "'' is not a region", "s3://REGION"),
        ("hdfs://x", "unknown scheme 'hdfs'", "s3"),
        ("2tb@s3://us-east-1", "size '2tb'", "1.12GB"),
        ("2TB@s3://us-east-1,1TB@gs://us-central1", "together with other data", "one store"),
        ("aws/us-east-1=2TB", "does not say whether it may leave", "=2TB:stay"),
        ("aws/us-east-1=0TB:stay", "above zero", "positive"),
    ],
)
def test_data_that_nobody_can_find(word: str, message: str, hint: str) -> None:
    """Each is refused with what to write."""
    with pytest.raises(PlacerError) as refused:
        wishes(data=word)
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_a_size_with_a_store_is_the_size_of_its_data() -> None:
    """The same as two options; two sizes contradict each other."""
    both = wishes(data="2TB@s3://us-east-1")
    assert both == wishes(data="aws/us-east-1", data_size="2TB")
    assert both.data_bytes == 2e12
    with pytest.raises(PlacerError, match="together with data-size"):
        wishes(data="2TB@s3://us-east-1", data_size="1TB")


def test_bytes_are_samples_of_the_model() -> None:
    """1 GB of images of 122,802 bytes each; with other sequences, of language models too."""
    profile = advisor.problem("resnet50").profile
    assert profile.bytes_per_sample is not None
    (data,) = wishes(data="gcp/us-central1=1GB:move").datasets
    assert (data.samples, data.may_move) == (round(1e9 / profile.bytes_per_sample), True)
    words: dict[str, Any] = {"data": {"gcp/us-central1": "1GB:stay"}, "seq_len": 1024}
    (text,) = advisor.problem("gpt2", **words).requirements.datasets
    sequence_bytes = advisor.problem("gpt2", seq_len=1024).profile.bytes_per_sample
    assert sequence_bytes is not None
    assert text.samples == round(1e9 / sequence_bytes)


def test_an_estimate_says_what_a_pass_over_the_data_takes(run: Run) -> None:
    """5 TB cost 100 times as much as 50 GB: 425.84 and 4.26 USD at 61.11 USD/h."""
    prices = []
    for size in ("5TB", "50GB"):
        data = ("--data", f"{size}@s3://us-east-1")
        done = run("estimate", "--model", "resnet50", *WORKERS, *data, "--json")
        (note,) = [n for n in json.loads(done.stdout)["notes"] if n["code"] == "one-pass"]
        prices.append(float(re.findall(r"\$([0-9.]+)", note["message"])[0]))
    assert prices[0] / prices[1] == pytest.approx(100, rel=0.01)
    shown = run("estimate", "--model", "resnet50", *WORKERS, *data, columns=200).stdout
    assert "One pass over 50 GB in aws/us-east-1" in shown
    assert re.search("data size +50 GB", shown)
