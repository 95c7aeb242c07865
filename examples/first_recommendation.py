"""Ask for a first recommendation: where to train XLM-RoBERTa for at most 5 USD an hour.

Shows: one question and what an answer holds: machines, speed with its interval, the parts of a
step, the price with its egress, the proof, and what lies just outside the budget. The prices are
those of April 2023 (Erben et al.); without `catalog` they are today's.

Prints: about ten lines. Takes about 2 s.

On the command line:

    placer recommend --model roberta-xlm --budget 5/h --catalog erben-2023 --gpu T4,A10,V100
"""

import placer

result = placer.recommend("roberta-xlm", budget="5/h", catalog="erben-2023", gpu="T4,A10,V100")
assert result.placement is not None, "nothing fits: result.nearest says what would"
assert result.estimate is not None
estimate = result.estimate

for group in result.placement.groups:
    print(
        f"rent       {group.count} x {group.instance_type} ({group.device}, {group.market}) in "
        f"{group.place}"
    )
print(
    f"exchange   gradients by {result.placement.exchange.strategy}, sent as "
    f"{result.placement.exchange.compression}"
)
speed = estimate.samples_per_second
print(f"speed      {speed.value:,.0f} samples/s, between {speed.low:,.0f} and {speed.high:,.0f}")
step = estimate.step
print(
    f"step       {step.total:.1f} s = {step.calculation:.1f} s calculation + "
    f"{step.communication:.1f} s communication"
)
usd = estimate.usd_per_hour
print(
    f"price      {usd.total:.2f} USD/h, {usd.egress:.2f} of it egress; "
    f"{estimate.usd_per_million_samples:.2f} USD per million samples"
)
print(
    f"proof      {result.status}: nothing in the catalog is better by more than "
    f"{result.limits.gap if result.limits else 0:.1%}"
)
for sentence in result.verdict:
    print(f"verdict    {sentence}")
for option in result.near_misses:
    print(f"near miss  {option.placement.groups[0].spec}: {option.note}")
