from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ascendsim.versus.alignment import aligned

NAMES = st.lists(st.sampled_from("abcdx"), max_size=12)


def _longest(a, b):
    """Length of a longest common subsequence, by the textbook's table."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(NAMES, NAMES)
def test_it_is_a_longest_common_subsequence(a, b):
    pairs = aligned(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))
    assert len(pairs) == _longest(a, b)


def test_one_that_is_missing_and_one_too_many():
    assert aligned("LAVS", "LVSS") == [(0, 0), (2, 1), (3, 2)]
    assert aligned("", "L") == []


def test_names_of_one_side_are_no_edits():
    a, b = ["old", "V"] * 3000, ["new", "V"] * 3000
    assert aligned(a, b, most_edits=0) == [(2 * i + 1, 2 * i + 1) for i in range(3000)]


def test_too_many_edits():
    assert aligned("ab" * 10, "ba" * 10, most_edits=1) is None
    assert len(aligned("ab" * 10, "ba" * 10, most_edits=2)) == 19


def test_long_lanes_are_quick():
    """100,000 names of a handful, with one in a thousand gone."""
    a = [f"V{i % 7}" for i in range(100_000)]
    b = [name for i, name in enumerate(a) if i % 1000 != 500]
    assert len(aligned(a, b)) == len(b)
