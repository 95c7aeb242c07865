"""A first recommendation: where to train XLM-RoBERTa for at most 5 USD an hour, and what it would cost."""

import placer

result = placer.recommend("roberta-xlm", budget="5/h", catalog="erben-2023", gpu="T4,A10,V100")
assert result.placement is not None
assert result.estimate is not None

for group in result.placement.groups:
    print(f"rent {group.count} x {group.instance_type} ({group.device}, {group.market}) in {group.place}")
speed, usd = result.estimate.samples_per_second, result.estimate.usd_per_hour
print(f"{speed.value:,.0f} samples/s ({speed.low:,.0f} to {speed.high:,.0f}) for {usd.total:.2f} USD/h, {usd.egress:.2f} of it egress")
print(f"{result.status}: nothing is better by more than {result.gap:.1%}")
for option in result.near_misses:
    print(f"near miss: {option.placement.groups[0].spec}: {option.note}")
