"""Put your own prices over the shipped book: a contract with a discount, then a reserved machine.

Shows: how CSV files are layered over the default book (later ones win), what they change in it, and
what that changes in the recommendation. The files are contract.csv (15 % off Google Cloud, 20 % off
its H100) and quote.csv (a negotiated price, and a reserved machine, which costs nothing more per
hour). The question: train XLM-RoBERTa on one machine, on demand, in AWS or Google Cloud, for at
most 20 USD/h.

Prints: the recommendation before and after each file, with the rows that made the difference. Takes
about 2 s.

On the command line:

    placer catalog diff default examples/contract.csv
    placer recommend --catalog default --catalog FILE.csv
"""

from pathlib import Path

from placer import Advisor, load_catalog
from placer.market.checks.coverage import differences

HERE = Path(__file__).resolve().parent
FILES = ("contract.csv", "quote.csv")

advisor = Advisor()
books = ["default"]
older = load_catalog(books)
for file in (None, *FILES):
    newer = older
    if file is not None:
        books.append(str(HERE / file))
        newer = load_catalog(books)
    changes = differences(older, newer)
    result = advisor.recommend(
        "roberta-xlm",
        budget="20/h",
        workers=1,
        market="on-demand",
        places="aws/*,gcp/*",
        catalog=newer,
    )
    assert result.placement is not None
    assert result.estimate is not None

    print(
        "the shipped book alone"
        if file is None
        else f"\nwith {file}: {len(changes):,} rows of the book differ"
    )
    speed, usd = result.estimate.samples_per_second.value, result.estimate.usd_per_hour.total
    for group in result.placement.groups:
        print(f"  rent {group.count} x {group.instance_type} in {group.place}")
        for change in changes:
            if (
                change.file == "offers.csv"
                and change.key[2] == group.instance_type
                and group.place == "/".join(change.key[:2])
            ):
                offer = next(
                    o
                    for o in newer.offers
                    if (o.place, o.instance_type, o.market)
                    == (group.place, change.key[2], change.key[5])
                )
                was = (
                    "was not in the book"
                    if change.kind == "new"
                    else f"cost {change.before:.2f} USD/h"
                )
                print(
                    f"  because it {was} and now costs {offer.usd_per_hour:.2f} USD/h "
                    f"({offer.source})"
                )
    print(f"  {speed:,.0f} samples/s for {usd:.2f} USD/h")
    older = newer
