"""Machines of one's own in one word: their cost, their line, what is assumed, renting instead."""

import json
from pathlib import Path
from typing import Any

import pytest

import placer
from conftest import Run
from placer.documents.saved_result import check_result
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.carbon import figure
from placer.market.words.own_machines import own_sentences, own_words
from placer.problem.problem import Problem
from placer.problem.words.changes import book_changed_again

OFFICE = "office=2xA100-40@Berlin"
advisor = Advisor("erben-2023")


def asked(own: Any = OFFICE, **words: Any) -> Problem:
    """A question with own machines over the small book."""
    return advisor.problem("roberta-xlm", own=own, **words)


def test_an_own_machine_costs_its_electricity() -> None:
    """A board of 400 W at 0.8 load and 8 vCPUs at 2.1 W, with 1.4 W drawn for each: 471.5 W; at an
    assumed 0.25 USD/kWh 0.11788 USD/h.
    """
    offer = next(o for o in asked().catalog.offers if o.place == "onprem/office")
    watts = (400 * 0.8 + 8 * 2.1) * 1.4
    assert figure("own_power", "*").value == 0.25
    assert offer.usd_per_hour == pytest.approx(watts / 1000 * 0.25, abs=1e-6)
    assert (offer.price_basis, offer.market, offer.available) == ("owned", "on_demand", 2)
    assert (offer.gpu, offer.gpu_count) == ("A100-40", 1)


def test_figures_after_the_place_replace_what_is_assumed() -> None:
    """300 W at 0.30 USD/kWh are 0.09 USD/h; the line carries what was said."""
    word = "lab=1xT4:4@52.5,13.4:power=0.30/kWh:line=500Mb/s:lan=1Gb/s:watts=300"
    problem = asked(word)
    offer = next(o for o in problem.catalog.offers if o.place == "onprem/lab")
    assert offer.usd_per_hour == pytest.approx(0.09)
    assert (offer.gpu_count, offer.network_gbps) == (4, 1.0)
    assert problem.network.link("onprem/lab", "onprem/lab").bytes_per_second == 62.5e6
    (said,) = own_sentences(problem.catalog)
    assert "near Berlin: 1 machine with 4 x T4, 256 GiB, 32 vCPUs; electricity alone" in said
    assert said.endswith("no egress (all assumed but watts, power, line, lan)")


def test_the_host_and_the_price_of_a_machine_may_be_said() -> None:
    """512 GiB and 96 vCPUs in place of 8 x 64 and 8 x 8; 9 USD an hour in place of electricity."""
    word = "Lab=1xA100-40:8@Zurich:ram=1TiB:cpus=96:nvlink=no:cost=9/h:line=1Gb/s:lan=25Gb/s"
    problem = asked(word)
    offer = next(o for o in problem.catalog.offers if o.place == "onprem/Lab")
    assert (offer.memory_gib, offer.vcpus, offer.usd_per_hour) == (1024, 96, 9)
    assert offer.nvlink_gb_per_s == 0
    (said,) = own_sentences(problem.catalog)
    assert said == (
        "onprem/Lab near Zurich: 1 machine with 8 x A100-40, 1,024 GiB, 96 vCPUs, no NVLink; "
        "$9.00/h each: 1 Gb/s to the world, 25 Gb/s between machines, no egress (assumed)"
    )
    free = asked("office=1xT4@Berlin:cost=0/h")
    assert next(o for o in free.catalog.offers if o.place == "onprem/office").usd_per_hour == 0


def test_vcpus_that_are_said_draw_power() -> None:
    """A T4 of 70 W at 0.8 load and 40 vCPUs at 2.1 W, with 1.4 W drawn for each: 196 W."""
    offers = asked("office=1xT4@Berlin:cpus=40").catalog.offers
    offer = next(o for o in offers if o.place == "onprem/office")
    assert offer.usd_per_hour == pytest.approx((70 * 0.8 + 40 * 2.1) * 1.4 / 1000 * 0.25)


def test_processors_have_any_number_of_vcpus() -> None:
    """Six vCPUs are three times CPU-2, 0.15 TFLOP/s, with 4 GiB each of which the system keeps 0.5;
    the power is that of the vCPUs alone. Of 2 and 4 the book's own rows count.
    """
    problem = asked("here=2xCPU-6@Berlin")
    offer = next(o for o in problem.catalog.offers if o.place == "onprem/here")
    assert (offer.gpu, offer.vcpus, offer.memory_gib) == ("CPU-6", 6, 24)
    gpu = problem.catalog.gpu("CPU-6")
    assert gpu.fp16_tflops == pytest.approx(0.45)
    assert (gpu.memory_gib, gpu.kind) == (23.5, "cpu")
    (said,) = own_sentences(asked("here=2xCPU-1@Berlin").catalog)
    assert "with one CPU-1, 4 GiB, 1 vCPU; electricity alone: 4.9 W each" in said
    assert asked("here=2xcpu-2@Berlin").catalog.gpu("CPU-2").fp16_tflops == 0.15
    with pytest.raises(PlacerError, match="cpu is CPU-2 or CPU-4 or CPU-8") as caught:
        asked("here=2xcpu@Berlin")
    assert caught.value.hint == "write here=2xCPU-2@Berlin: the number is that of its vCPUs"


def test_names_keep_their_case(run: Run) -> None:
    """What was typed is what is shown, placed by hand and named among places."""
    result = placer.recommend("roberta-xlm", own="MyLab=2xT4@Berlin", catalog="erben-2023")
    assert result.placement is not None
    assert result.placement.places == ("onprem/MyLab",)
    saved = json.loads(json.dumps(result.to_saved(whole=True)))
    assert "priced again" in check_result(saved, "saved")
    figures = placer.estimate(
        "roberta-xlm", "onprem/MyLab=2xT4", own="MyLab=2xT4@Berlin", catalog="erben-2023"
    )
    assert figures.samples_per_second.value == pytest.approx(
        result.estimate.samples_per_second.value if result.estimate else 0
    )


LARGE: dict[str, Any] = {"tp": 8, "microbatch": 1, "alternatives": False}


def test_machines_without_nvlink_divide_matrices_slowly() -> None:
    """Eight H100 of a data sheet exchange 450 GB/s each way, over PCIe half of 64 GB/s: a step with
    tensor parallel degree 8 takes more than twice as long. As the data sheet says is as nothing
    said.
    """
    speeds = {}
    for word in ("", ":nvlink=450GB/s", ":nvlink=no"):
        answer = placer.recommend("llama-3.1-8b", own=f"a=1xH100:8@Dallas{word}", **LARGE)
        assert answer.estimate is not None
        speeds[word] = answer.estimate.samples_per_second
    assert speeds[""] == speeds[":nvlink=450GB/s"]
    assert speeds[":nvlink=no"].value < speeds[""].value / 2
    saved = json.loads(json.dumps(answer.to_saved(whole=True)))
    assert "priced again" in check_result(saved, "saved")


def test_host_memory_decides_what_fits() -> None:
    """A plan of 8.03 B parameters keeps 94 GiB on each of two hosts while it loads and saves, and
    183 GiB on one; the tip says that 64 GiB were assumed only where they were.
    """
    asked_for = "a=2xH100:8@Dallas"
    assert placer.recommend("llama-3.1-8b", own=f"{asked_for}:ram=128GiB", **LARGE).placement
    with pytest.raises(PlacerError, match="64 GiB") as refused:
        placer.recommend("llama-3.1-8b", own=f"{asked_for}:ram=64GiB", **LARGE)
    assert "assumed" not in refused.value.hint
    with pytest.raises(PlacerError, match="host memory") as refused:
        placer.recommend("llama-3.1-8b", own="a=1xB200@Dallas")
    assert refused.value.hint.startswith("their host memory is assumed: say it, as in :ram=1TB; or")


def test_traffic_from_the_site_is_free_and_to_it_is_not() -> None:
    """Nobody bills what leaves the office; the cloud bills what leaves the cloud."""
    network = asked().network
    assert network.usd_per_byte("onprem/office", "gcp/us-central1") == 0
    assert network.usd_per_byte("gcp/us-central1", "onprem/office") > 0


def test_several_words_are_told_apart_by_their_names() -> None:
    """Commas of coordinates stay; the command line repeats the option."""
    words = ["a=1xT4@52.5,13.4", "b=2xA10@Paris"]
    assert own_words(",".join(words)) == own_words(words) == words
    both = asked(",".join(words))
    assert both.requirements.places_in == ("onprem/a", "onprem/b")
    assert asked({"a": "1xT4@52.5,13.4", "b": "2xA10@Paris"}).catalog.digest == both.catalog.digest


def test_the_answer_compares_with_renting(tmp_path: Path) -> None:
    """The cheapest rented machines of the same speed are dearer than electricity; a saved answer
    holds the changed book and is checked against it.
    """
    result = placer.recommend("roberta-xlm", own=OFFICE, catalog="erben-2023")
    assert result.placement is not None
    assert result.estimate is not None
    assert result.placement.places == ("onprem/office",)
    notes = {note.code: note.message for note in result.notes}
    assert "(all assumed)" in notes["own"]
    assert "the same speed from rented machines" in notes["renting"]
    saved = json.loads(json.dumps(result.to_saved(whole=True)))
    assert saved["problem"]["catalog"]["changes"] == [f"own={OFFICE}"]
    assert "priced again" in check_result(saved, "saved")
    book = book_changed_again(advisor.problem("roberta-xlm").catalog, [f"own={OFFICE}"])
    assert book.digest == result.problem.catalog.digest


def test_the_plan_is_chosen_among_those_that_fit_the_host_too() -> None:
    """70 B parameters on four machines with eight H200: plans that divide the optimizer alone are
    faster, but leave more states on each host than it has.
    """
    answer = placer.recommend(
        "llama-3.1-70b", own="a=4xH200:8@Dallas:lan=25Gb/s", alternatives=False
    )
    assert answer.placement is not None
    (group,) = answer.placement.groups
    assert (group.place, group.machine_count) == ("onprem/a", 4)
    assert group.inner is not None


def test_large_adapters_on_two_small_devices_are_refused() -> None:
    """QLoRA of 70 billion parameters on 2 x 24 GB: public runs are out of memory unless weights are
    offloaded (axolotl-ai-cloud/axolotl, issue 1522). On 2 x 48 GB it runs.
    """
    words: dict[str, Any] = {"qlora": 32, "seq_len": 512}
    with pytest.raises(PlacerError, match="GiB on each of 2 x RTX3090") as refused:
        placer.recommend("llama-2-70b-hf", own="pc=1xRTX3090:2@Berlin", **words)
    assert "offload weights to host memory" in refused.value.hint
    assert placer.recommend("llama-2-70b-hf", own="pc=1xA6000:2@Berlin", **words).placement
