"""Tables of capacity, and logs of launches."""

from pathlib import Path

from conftest import ROOT
from placer.market.books.book_reader import load_catalog
from placer.market.capacity_table import CapacityRow, class_rows, named_zones, zone_capacity
from placer.market.launch_log import read_launch_log

HEADER = (
    "provider,region,zone,device,market,machines_asked,machines,share,share_low,share_high,"
    "survival_a,survival_b_h,corr_region,corr_across,basis,source,as_of\n"
)
REST = "measured,own launches,2026-11-01\n"
H100 = {"provider": "gcp", "region": "us-central1", "device": "H100", "market": "spot"}


def row(**changes: object) -> CapacityRow:
    """A class row of four of four machines, changed."""
    usual: dict[str, object] = {
        "provider": "gcp",
        "device": "H100",
        "market": "spot",
        "machines_asked": 4,
        "machines": 4,
        "share": 0.5,
        "share_low": 0.4,
        "share_high": 0.6,
        "basis": "measured",
        "source": "own launches",
        "as_of": "2026-11-01",
    }
    return CapacityRow(**{**usual, **changes})  # type: ignore[arg-type]


def layer(folder: Path, *lines: str) -> str:
    """Write a capacity.csv; returns its path."""
    path = folder / "capacity.csv"
    path.write_text(HEADER + "".join(f"{line},{REST}" for line in lines), encoding="utf-8")
    return str(path)


def test_the_narrowest_rows_win_and_wider_ones_fill_in() -> None:
    """The zone's own share, the region's survival, the class's correlations."""
    rows = [
        row(corr_region=0.3, corr_across=0.04, survival_a=1.0, survival_b_h=1.0),
        row(region="us-central1", share=0.7, share_high=0.8, survival_a=2.0, survival_b_h=2.0),
        row(region="us-central1", zone="us-central1-b", share=0.9, share_high=0.95),
        row(provider="*", device="*", share=0.1, share_low=0.0),
    ]
    zone = zone_capacity(rows, zone="us-central1-b", **H100)
    assert [each.share for each in zone.launches] == [0.9]
    assert [each.survival_a for each in zone.stays] == [2.0]
    assert (zone.corr_region, zone.corr_across) == (0.3, 0.04)
    assert [each.share for each in zone_capacity(rows, **H100).launches] == [0.7]
    elsewhere = zone_capacity(rows, **{**H100, "region": "us-west1"})
    assert [(each.share, each.level) for each in elsewhere.launches] == [(0.5, "class")]
    other = zone_capacity(rows, **{**H100, "device": "T4"})
    assert [each.share for each in other.launches] == [0.1]
    assert named_zones(rows, **H100) == ("us-central1-b",)
    nothing = zone_capacity(rows, **{**H100, "market": "on_demand"})
    assert (nothing.launches, nothing.most) == ((), 0)


def test_of_the_same_machines_the_row_that_asked_for_most_counts() -> None:
    """Four of sixteen say more about a gang than four of four."""
    rows = [row(), row(machines_asked=16, share=0.45), row(machines_asked=16, machines=16)]
    assert [each.machines_asked for each in zone_capacity(rows, **H100).launches] == [16, 16]
    assert zone_capacity(rows, **H100).most == 16


def test_the_shipped_classes_are_those_that_were_probed() -> None:
    """Google H100: 71, 64, 54, 40 % for 1, 4, 8, 16 of 16 machines; other devices are assumed,
    in a range that holds what was measured of both probed classes; on-demand is named as assumed.
    """
    rows = load_catalog("default").capacity
    assert set(class_rows()) == set(rows)
    found = zone_capacity(rows, **H100)
    assert [(each.machines, each.share) for each in found.launches] == [
        (1, 0.71),
        (4, 0.64),
        (8, 0.54),
        (16, 0.40),
    ]
    assert {each.basis for each in found.launches} == {"measured"}
    usual = zone_capacity(rows, **{**H100, "device": "T4"})
    assert {each.basis for each in usual.launches} == {"assumed"}
    probed = [each for each in rows if each.basis == "measured" and each.share is not None]
    for wide in usual.launches:
        for narrow in (each for each in probed if each.machines == wide.machines):
            assert wide.share_low < narrow.share_low  # type: ignore[operator]
            assert wide.share_high > narrow.share_high  # type: ignore[operator]
    assert not usual.stays
    on_demand = zone_capacity(rows, **{**H100, "market": "on_demand"}).launches
    assert [(each.share, each.basis) for each in on_demand] == [(1.0, "assumed")]


def test_a_row_of_a_layer_replaces_the_same_row_below(tmp_path: Path) -> None:
    """The own class row for eight of sixteen H100; the others stay. The digest is another."""
    path = layer(tmp_path, "gcp,,,H100,spot,16,8,0.6,0.5,0.62,,,,")
    book, plain = load_catalog(["default", path]), load_catalog("default")
    assert len(book.capacity) == len(plain.capacity)
    assert [each.share for each in zone_capacity(book.capacity, **H100).launches] == [
        0.71,
        0.64,
        0.6,
        0.40,
    ]
    assert book.digest != plain.digest
    assert load_catalog(["default", path]).capacity == book.capacity  # from the cache


def log(folder: Path, text: str) -> Path:
    """Write a log."""
    path = folder / "launches.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_cells_and_times_are_read(tmp_path: Path) -> None:
    """An empty cell is nobody's question; hours count from the first line in any time zone."""
    text = "utc,us-east1-b,us-east1-c\n2026-11-01T10:00Z,4,\n2026-11-01T13:30+01:00,0,8\n"
    known = read_launch_log(log(tmp_path, text))
    assert known.launched.tolist() == [[4, -1], [0, 8]]
    assert known.hours.tolist() == [0.0, 2.5]
    assert (known.most, known.regions) == (8, ("us-east1", "us-east1"))
    assert known.usual.tolist() == [1 / 3, 0, 0, 0, 1 / 3, 0, 0, 0, 1 / 3]
    assert read_launch_log(tmp_path / "launches.csv", 16).most == 16


def test_the_example_is_a_log() -> None:
    """72 hours of three zones."""
    known = read_launch_log(ROOT / "examples" / "launches.csv")
    assert known.launched.shape == (72, 3)
    assert float(known.hours[-1]) == 71.0


HEAD = "utc,a,b\n"
LINE = "2026-11-01T10:00Z,1,2\n"
