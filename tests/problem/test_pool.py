"""One kind of worker that may be rented: a pool."""

from instances import reading_problem


def test_a_pool_whose_disks_keep_the_data_reads_it_once() -> None:
    """In the first pass all of it from the store, later nothing and no slower; other pools are the
    same in every pass.
    """
    pools = [pool for seed in range(8) for pool in reading_problem(seed).pools]
    keeping = [pool for pool in pools if pool.keeps_data]
    assert 0 < len(keeping) < len(pools)
    assert all(pool.in_pass(2) is pool for pool in pools if not pool.keeps_data)
    for pool in keeping:
        first, later = pool.in_pass(1), pool.in_pass(2)
        assert (first.streamed, later.streamed) == (1.0, 0.0)
        assert first.shared.value <= pool.shared.value <= later.shared.value
