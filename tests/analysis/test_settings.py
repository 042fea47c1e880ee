"""Which replicas repeat one another, what they are called, and parts of trajectories."""

import numpy as np
import pytest
import xarray as xr

from attndyn.analysis.settings import ALL, Setting, of_replicas, replica_names, select, settings, surviving

PI = [[0.5, 0.5], [0.9, 0.1]]


def tree(pi, **varied):
    count = len(pi)
    coords = {
        "pi": (("replica", "token"), np.array(pi)),
        "seed": ("replica", np.arange(count) % 2),
        "age": ("replica", np.arange(count)),  # varies, but was not varied
    }
    for name, values in varied.items():
        coords[name] = ("replica", values, {"long_name": f"varied: some.{name}"})
    probe = xr.Dataset({"loss": (("replica", "step"), np.arange(3.0 * count).reshape(count, 3))})
    return xr.DataTree.from_dict({"/": xr.Dataset(coords=coords), "/loss": probe})


def test_seeds_alone_are_one_setting():
    assert settings(tree(PI[:1] * 4)) == [Setting(ALL, (0, 1, 2, 3))]
    assert replica_names(tree(PI[:1] * 3)) == ["seed 0", "seed 1", "seed 0"]


def test_replicas_of_equal_varied_scalars_belong_together():
    found = tree(PI[:1] * 4, lr=[0.03, 0.1, 0.03, 0.1], lam=[0.5] * 4)
    assert settings(found) == [Setting("lr 0.03, lam 0.5", (0, 2)), Setting("lr 0.1, lam 0.5", (1, 3))]
    assert replica_names(found)[1] == "seed 1, lr 0.1, lam 0.5"


def test_values_that_four_digits_do_not_tell_apart_are_written_out():
    labels = [setting.label for setting in settings(tree(PI[:1] * 2, lr=[0.100001, 0.100002]))]
    assert labels == ["lr 0.100001", "lr 0.100002"]


def test_a_whole_pi_that_varies_is_numbered():
    assert settings(tree([PI[0], PI[0], PI[1]])) == [Setting("pi 1", (0, 1)), Setting("pi 2", (2,))]
    both = settings(tree([*PI, *PI], lr=[1.0, 1.0, 2.0, 2.0]))
    assert [setting.label for setting in both] == ["lr 1, pi 1", "lr 1, pi 2", "lr 2, pi 1", "lr 2, pi 2"]


def test_a_pi_that_follows_from_a_scalar_is_not_named_again():
    assert [setting.label for setting in settings(tree(PI, delta=[0.1, 0.2]))] == ["delta 0.1", "delta 0.2"]


def test_a_whole_transition_matrix_that_varies_is_numbered():
    given = tree(PI[:1] * 2)
    transition = np.stack([np.eye(2), np.eye(2)[::-1]])
    root = given.to_dataset().assign_coords(transition=(("replica", "token", "next_token"), transition))
    assert [setting.label for setting in settings(xr.DataTree(root))] == ["transition 1", "transition 2"]


def test_part_of_a_trajectory_has_these_replicas_in_every_group():
    part = of_replicas(tree(PI * 2, lr=[1.0, 2.0, 1.0, 2.0]), (1, 3))
    assert part["lr"].values.tolist() == [2, 2]
    assert part["loss"]["loss"].values[:, 0].tolist() == [3, 9]
    assert settings(part) == [Setting("lr 2", (0, 1))]


def test_part_of_a_result_keeps_what_has_no_replicas():
    result = xr.Dataset({"a": ("replica", [1, 2, 3]), "b": ("setting", [4, 5]), "c": 6})
    part = select(result, [2], 1)
    assert (part["a"].values.tolist(), part["b"].values.tolist(), int(part["c"])) == ([3], [5], 6)
    assert select(result[["c"]], [2], 1).identical(result[["c"]])


@pytest.mark.parametrize(
    ("rows", "first"),
    [
        ([[1, 2], [1, 2]], 0),
        ([[1, np.nan], [1, 2]], 1),
        ([[np.nan, np.nan], [1, np.nan]], 1),
        ([[np.nan, np.nan]] * 2, 0),
    ],
)
def test_first_that_survives(rows, first):
    assert surviving(xr.DataArray(np.array(rows, float), dims=("replica", "step"))) == first
    assert surviving(xr.DataArray([[[np.nan, 1.0]]] * 2, dims=("replica", "step", "token"))) == 0
