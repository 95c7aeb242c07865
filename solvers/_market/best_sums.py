"""Largest weighted sums of n machines at some places, each by one partial sort of a row."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from .arrays import Array, Indices, Mask
from .required_machines import RequiredMachines, best_of, best_with

KEPT_SUMS = 1024
"""Answers that are kept, of some ten kB each."""


class Runs:
    """Increments of buckets as runs that do not increase in any row, so that the n largest of all
    are in the n runs that begin highest.

    Parameters
    ----------
    values, owner
        As in `BestSums`.
    """

    def __init__(self, values: Array, owner: Indices) -> None:
        units = values.shape[1]
        begins = np.ones(units, dtype=bool)
        begins[1:] = (owner[1:] != owner[:-1]) | np.any(values[:, 1:] > values[:, :-1], axis=0)
        self.starts = np.flatnonzero(begins)
        run = np.cumsum(begins) - 1
        place_in_run = np.arange(units) - self.starts[run] if units else run
        longest = int(place_in_run.max(initial=-1)) + 1
        self.table = np.full((len(values), len(self.starts), longest), -np.inf)
        self.table[:, run, place_in_run] = values

    def best_of(self, open_units: Mask, most: int) -> Array:
        """Return the sum of the n largest units of each row among the runs that are open; see
        `best_of`.
        """
        table = self.table[:, open_units[self.starts], :most]
        rows, runs, length = table.shape
        if runs > most > 0:
            first = np.argpartition(-table[:, :, 0], most - 1, axis=1)[:, :most]
            table = np.take_along_axis(table, first[:, :, None], axis=1)
        return best_of(table.reshape(rows, table.shape[1] * length), most)


class BestSums:
    """Linear relaxation of the covering problem at fixed n.

    Parameters
    ----------
    values
        Concave increments of every quota bucket; shape (rows, units).
    owner, place
        First pool of each increment's bucket, and its place; shape (units,).
    of_hosts
        Which increments are of pools whose hosts are of some classes.
    places
        Number of places.
    required
        Machines that must be used.
    """

    def __init__(
        self,
        values: Array,
        owner: Indices,
        place: Indices,
        of_hosts: Callable[[frozenset[str]], Mask],
        places: int,
        required: RequiredMachines,
    ) -> None:
        self.values, self.owner, self.place, self.of_hosts, self.places, self.required = (
            values,
            owner,
            place,
            of_hosts,
            places,
            required,
        )
        self.runs = Runs(values, owner)
        self._kept_sums = lru_cache(maxsize=KEPT_SUMS)(self._sums)
        self._kept_totals = lru_cache(maxsize=KEPT_SUMS)(self._totals)

    def of(self, places: Indices, hosts: frozenset[str], most: int) -> Array:
        """Return the largest sum of exactly n machines at some places.

        Parameters
        ----------
        places
            Indices of places.
        hosts
            Averaging classes that may be used.
        most
            Largest n.

        Returns
        -------
        Array
            Shape (rows, most + 1); minus infinity where quotas do not allow n machines.

        Notes
        -----
        The searches ask for the same places again and again.
        """
        return self._kept_sums(places.astype(np.intp).tobytes(), hosts, most)

    def with_required(
        self, places: Indices, hosts: frozenset[str], most: int, among: Indices | None = None
    ) -> Array:
        """Return the sums of `of` where the machines that must be used are among the n.

        Parameters
        ----------
        places, hosts, most
            As in `of`.
        among
            All places of a placement, if ``places`` are a part of them: rules count whose machines
            can only be in that part. None: these.
        """
        if not self.required.rules:
            return self.of(places, hosts, most)
        every = places if among is None else among
        return self._kept_totals(
            places.astype(np.intp).tobytes(), every.astype(np.intp).tobytes(), hosts, most
        )

    def _sums(self, places: bytes, hosts: frozenset[str], most: int) -> Array:
        # The sum keeps the quota of each bucket, but no joint quota, so it is at least that of any
        # n machines that can be had.
        built = self.runs.best_of(self._open_units(places, hosts), most)
        built.setflags(write=False)
        return built

    def _totals(self, places: bytes, among: bytes, hosts: frozenset[str], most: int) -> Array:
        inside, open_ = self._open_units(places, hosts), self._open_units(among, hosts)
        built = best_with(
            self.values, inside, self.required.within(self.owner, inside, open_), most
        )
        built.setflags(write=False)
        return built

    def _open_units(self, places: bytes, hosts: frozenset[str]) -> Mask:
        """Return which increments are of some places and hosts; shape (units,)."""
        wanted = np.zeros(self.places, dtype=bool)
        wanted[np.frombuffer(places, dtype=np.intp)] = True
        mask: Mask = wanted[self.place] & self.of_hosts(hosts)
        return mask
