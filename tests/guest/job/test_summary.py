from guest.job.summary import mean


def test_mean_is_exactly_rounded() -> None:
    # Worked out by hand: 0.1 + 0.2 + 0.3 over 3 in plain binary64 addition gives 0.20000000000000004.
    assert mean([0.1, 0.2, 0.3]) == 0.2
    assert mean([1.0, 1.0, 0.0]) == 2 / 3
    assert mean([1e-17, 1.0, -1.0 + 1.0]) == (1 + 1e-17) / 3


def test_one_missing_reward_leaves_no_mean() -> None:
    assert mean([1.0, None]) is None
    assert mean([]) is None
