"""Deadlines: how long from now, or the day by whose end a run is done."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

from placer.errors import PlacerError
from placer.units import parse_date, parse_seconds

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
LEAST_S = 60.0
"""Seconds of a deadline that is less than a minute away."""


def read_deadline(text: str, now: datetime | None = None) -> float:
    """Read a time such as ``12h``, or the day by whose end it is over; seconds from now. ``text``:
    a duration, a day of the week (the next one, or today), or a date; days end at midnight UTC.
    ``now``: None is the present. `PlacerError` if it is none of these, or is over.

    >>> wednesday = datetime(2026, 11, 25, 18, tzinfo=UTC)
    >>> [read_deadline(text, wednesday) / 3600 for text in ("12h", "friday", "2026-11-25")]
    [12.0, 54.0, 6.0]
    """
    day = text.strip().lower()
    moment = now or datetime.now(UTC)
    if day in WEEKDAYS:
        last = moment.date() + timedelta(days=(WEEKDAYS.index(day) - moment.weekday()) % 7)
    elif re.fullmatch(r"\d{4}-\d{2}-\d{2}", day):
        last = parse_date(day, "deadline")
    else:
        return parse_seconds(text)
    # The day after 9999-12-31 is none, but the time until its end is one.
    left = (datetime.combine(last, time(), UTC) - moment + timedelta(days=1)).total_seconds()
    if left <= 0:
        raise PlacerError(f"deadline {day} is over", "give a day to come, or a time such as 36h")
    return max(LEAST_S, left - left % 60)
