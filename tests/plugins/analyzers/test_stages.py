"""The stage analyzer on labelled trajectories: constructed ones with known stages, and short real ones."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from attndyn import registry
from attndyn.analysis.timeline import replica_spans

PI = np.array([0.6, 0.25, 0.1, 0.05])  # by rank
LABELS = np.array(["the", "of", "and", "to"])
# rank of each label: the most frequent token is not the first, nor the same in both replicas
RANKS = np.array([[2, 0, 3, 1], [0, 1, 3, 2]])
ALIKE = RANKS[[1, 1]]
LAYERS, HEADS, WIDTH, D_HEAD = 2, 3, 7, 5


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -500, 500)))


def onset(replica, layer, head):
    """Middle of the rise of attention, different for every replica, layer and head."""
    return 300.0 + 40 * replica + 20 * layer + 5 * head


def size(steps):
    """Frobenius norm of W_1, and about half of that of W_0: grown to nine tenths at step 86."""
    return sigmoid((steps - 75) / 5)


def embeddings(steps, replica):
    """W_0 (step, rank, model): rows along one axis after step 50; token k leaves it at 500 + 400 k."""
    share = 0.3 + 0.69 * sigmoid((steps - 50) / 5)
    initial = np.sqrt(4 * (1 - share) / (4 * share - 1)) * (steps < 150)
    W_0 = np.zeros((len(steps), 4, WIDTH))
    W_0[..., 0] = 1
    W_0[:, range(4), range(1, 5)] = initial[:, None]
    for k in range(3):
        angle = np.arcsin(np.sqrt(0.96 * sigmoid((steps - 500 - 400 * k - 30 * replica) / 10)))
        W_0[:, k, 0], W_0[:, k, k + 1] = np.cos(angle), np.where(steps < 150, initial, np.sin(angle))
    return W_0 * size(steps)[:, None, None]


def attention(steps, middle):
    """(step, query, key) by rank: all queries rise by 0.1 at `middle`, all but 0 fall 200 steps later."""
    given = PI[0] + 0.1 * sigmoid((steps[:, None] - middle) / 8)
    given = given - 0.55 * sigmoid((steps[:, None] - middle - 200) / 8) * [0, 1, 1, 1]
    rest = np.broadcast_to(PI / (1 - PI[0]), (len(steps), 4, 4)) * (1 - given)[..., None]
    return np.concatenate([given[..., None], rest[..., 1:]], axis=-1)


def one_direction(steps, shape, middle):
    """Matrices of rank-one share 0.99 after step `middle`, 0.2 before it."""
    share = 0.2 + 0.79 * sigmoid((steps - middle) / 5)
    out = np.zeros((len(steps), *shape))
    size = min(shape)
    out[:, range(size), range(size)] = np.sqrt((1 - share) / (size - 1))[:, None]
    out[:, 0, 0] = np.sqrt(share)
    return out


def constructed(every=10, last=2000, ranks=RANKS):
    """Two replicas that rank the tokens as given, two layers of three heads.

    Parameters are recorded half as often as attention.
    """
    fine, coarse = np.arange(0, last + 1.0, every), np.arange(0, last + 1.0, 2 * every)
    heads = [(r, layer, head) for r in range(2) for layer in range(LAYERS) for head in range(HEADS)]
    maps = [attention(fine, onset(*place))[:, ranks[place[0]]][:, :, ranks[place[0]]] for place in heads]
    W_0 = np.stack([embeddings(coarse, r)[:, ranks[r]] for r in range(2)])
    collapse = [
        one_direction(coarse, (WIDTH, D_HEAD), 110.0 + 60 * layer + 25 * head) for _, layer, head in heads
    ]

    def per_head(arrays):
        return np.moveaxis(np.reshape(arrays, (2, LAYERS, HEADS, *arrays[0].shape)), 3, 1)

    weight = ("replica", "step", "layer", "head", "model", "d_head")
    parameters = {
        "W_0": (("replica", "step", "token", "model"), W_0),
        "W_1": (
            ("replica", "step", "model", "next_token"),
            np.stack([one_direction(coarse, (WIDTH, 4), 20) * size(coarse)[:, None, None]] * 2),
        ),
        "W_Q": (weight, per_head(collapse)),
        "W_K": (weight, per_head(collapse)),
    }
    return tree(PI[ranks], LABELS, fine, per_head(maps), coarse, parameters)


def tree(pi, labels, attention_steps, maps, steps, parameters):
    """A trajectory from the attention maps (replica, step, layer, head, query, key) and the parameters."""
    root = {"pi": (("replica", "token"), pi), "replica": np.arange(len(pi)), "token": labels}
    maps = xr.DataArray(
        maps,
        dims=("replica", "step", "layer", "head", "query", "key"),
        coords={"step": attention_steps.astype(int), "query": labels, "key": labels},
    )
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset(coords=root),
            "/attention": xr.Dataset({"attention": maps}),
            "/parameters": xr.Dataset(parameters, coords={"step": steps.astype(int)}),
        }
    )


def analyze(trajectory, **options):
    stages = registry.get("analyzer", "stages")
    return stages(stages.Options(**options)).analyze(trajectory)


@pytest.fixture(scope="module")
def result():
    return analyze(constructed())


def test_boundaries_of_every_replica_layer_and_head(result):
    steps = result["boundary_step"]
    assert steps.sel(boundary="focus_onset").dims == ("replica", "layer", "head")
    for place in np.ndindex(2, LAYERS, HEADS):
        found = steps.isel(dict(zip(("replica", "layer", "head"), place, strict=True)))
        rise, replica = onset(*place), place[0]
        known = {
            "rank_one": (50 + 5 * np.log(0.65 / 0.04), 20),
            "condensation_end": (75 + 5 * np.log(9), 20),
            "collapse_end": (110 + 60 * place[1] + 25 * place[2] + 5 * np.log(0.75 / 0.04), 20),
            "focus_onset": (rise - 8 * np.log(9), 10),
            "dilution_onset": (rise + 200 - 8 * np.log(54), 10),
            "dilution_end": (rise + 200 + 8 * np.log(9), 10),
            **{f"direction_{k}": (500 + 400 * k + 30 * replica + 0.8, 20) for k in range(3)},
        }
        for name, (step, interval) in known.items():
            assert abs(float(found.sel(boundary=name)) - step) < interval, (name, place)
    assert result["in_order"].all()


def test_bands_over_replicas():
    result = analyze(constructed(ranks=ALIKE))
    median = result["boundary_median"].sel(boundary="direction_2")
    each = result["boundary_step"].sel(boundary="direction_2")
    xr.testing.assert_allclose(
        median.squeeze("setting", drop=True), each.mean("replica"), check_dim_order=False
    )
    p10, p90 = result["boundary_p10"], result["boundary_p90"]
    assert result["setting"].values.tolist() == ["all"]
    assert (p90 - p10).sel(boundary="direction_2").values == pytest.approx(0.8 * 30, abs=0.5)
    assert (result["boundary_share"] == 1).all()


def test_queries_are_named_and_the_most_frequent_does_not_dilute(result):
    dilutes = result["query_dilutes"].isel(layer=0, head=0)
    assert dilutes.sel(query="of").values.tolist() == [False, True]
    assert dilutes.sel(query="the").values.tolist() == [True, False]
    assert dilutes.sel(query=["and", "to"]).all()
    assert result["query_focus_depth"].values == pytest.approx(0.1, abs=1e-3)
    onset_of = result["query_boundary"].sel(event="focus_onset", query="and")
    assert abs(float(onset_of[1, 1, 2]) - (onset(1, 1, 2) - 8 * np.log(9))) < 10
    assert result["token_at_rank"].values.tolist() == [["of", "to", "the"], ["the", "of", "to"]]


def test_depths(result):
    assert result["focus_depth"].values == pytest.approx(0.1, abs=1e-3)
    assert result["dilution_depth"].values == pytest.approx(0.55, abs=1e-3)
    assert not result["token_dilutes"].sel(rank=[1, 2]).any()


def test_every_variable_is_described_and_can_be_stored(result, tmp_path):
    for name, array in result.data_vars.items():
        assert array.attrs["long_name"], name
        assert array.attrs["units"] == ("step" if "step" in array.attrs["long_name"] else "1"), name
    result.to_netcdf(tmp_path / "stages.nc")
    with xr.open_dataset(tmp_path / "stages.nc") as stored:
        xr.testing.assert_equal(stored.load(), result)


def test_stage_of_every_step_and_spans(result):
    labels = result["stage"].isel(replica=0, layer=0, head=0)
    known = {
        0: "condensation",
        100: "collapse",
        200: "plateau",
        400: "focus",
        600: "dilution",
        1000: "token 1",
    }
    for step, label in known.items():
        assert labels.sel(step=step) == label
    assert labels.isel(step=-1) == "token 2"
    for spans in (replica_spans(result, 0), replica_spans(result, 1)):
        assert [label for label, _, _ in spans] == [*known.values(), "token 2"]
        assert spans[0][1] == 0
        assert spans[-1][2] == 2000
        assert all(end == start for (_, _, end), (_, start, _) in pairwise(spans))


def test_cadence_moves_no_boundary_by_more_than_an_interval(result):
    coarse = analyze(constructed(every=25))
    moved = abs(coarse["boundary_step"] - result["boundary_step"])
    assert float(moved.max()) < 50
    assert bool(moved.notnull().all())


def test_order_of_tokens_and_dimensions_does_not_matter(result):
    given = constructed()
    perm = [3, 1, 0, 2]
    shuffled = xr.DataTree.from_dict(
        {
            "/": given.to_dataset().isel(token=perm),
            "/attention": given["attention"].to_dataset(inherit=False).isel(query=perm, key=perm).transpose(),
            "/parameters": given["parameters"].to_dataset(inherit=False).isel(token=perm).transpose(),
        }
    )
    found = analyze(shuffled)
    xr.testing.assert_allclose(found["boundary_step"], result["boundary_step"])
    xr.testing.assert_equal(found["query_dilutes"].sel(query=LABELS), result["query_dilutes"])


def test_declared_subset_of_tokens_and_the_rest_as_one():
    given = constructed()
    maps = given["attention"]["attention"]
    rest = maps.isel(query=[0], key=slice(None)).assign_coords(query=["<rest>"])
    maps = xr.concat([maps, rest], "query")
    maps = xr.concat([maps, 0 * maps.isel(key=[0]).assign_coords(key=["<rest>"])], "key")
    parts = {"/": given.to_dataset(), "/parameters": given["parameters"].to_dataset(inherit=False)}
    found = analyze(xr.DataTree.from_dict({**parts, "/attention": xr.Dataset({"attention": maps})}))
    xr.testing.assert_allclose(found["boundary_step"], analyze(given)["boundary_step"])
    assert found["query"].values.tolist() == LABELS.tolist()


def test_divergence_one_record_and_nothing_at_all():
    given = constructed()
    broken = given.copy(deep=True)
    for name in ("attention", "parameters"):
        data = broken[name].to_dataset(inherit=False)
        broken[name] = xr.DataTree(data.where(data["step"] < 700))
    found = analyze(broken)
    assert (
        found["boundary_share"].sel(boundary=["condensation_end", "dilution_end", "direction_0"]).min() == 1
    )
    assert found["boundary_share"].sel(boundary=["direction_1", "direction_2"]).max() == 0
    for last in (0, 10):
        single = analyze(constructed(last=last))
        assert single["boundary_step"].isnull().all()
        assert replica_spans(single, 0) == []


def test_a_single_token_has_no_stage(make_trajectory, run_analyzer):
    records, head = 30, (1, 30, 1, 1)
    weights = {
        "W_0": (1, records, 1, 3),
        "W_1": (1, records, 3, 1),
        "W_Q": (*head, 3, 3),
        "W_K": (*head, 3, 3),
    }
    arrays = {name: np.ones(shape) for name, shape in weights.items()} | {"attention": np.ones((*head, 1, 1))}
    found = run_analyzer("stages", make_trajectory([1.0], arrays, np.arange(records)))
    assert found["boundary_step"].isnull().all()


def test_medians_and_bands_are_over_the_replicas_of_a_setting():
    given = constructed(ranks=ALIKE)
    root = given.to_dataset()
    root = root.assign_coords(lr=("replica", [0.1, 0.2], {"long_name": "varied: optimizer.lr"}))
    parts = {name: given[name].to_dataset(inherit=False) for name in ("attention", "parameters")}
    found = analyze(xr.DataTree.from_dict({"/": root, **parts}))
    assert found["setting"].values.tolist() == ["lr 0.1", "lr 0.2"]
    assert found["replica_setting"].values.tolist() == ["lr 0.1", "lr 0.2"]
    for replica, setting in enumerate(["lr 0.1", "lr 0.2"]):
        one = found.sel(setting=setting, drop=True)
        for name in ("median", "p10", "p90"):
            step = found["boundary_step"].isel(replica=replica, drop=True)
            xr.testing.assert_equal(one[f"boundary_{name}"], step.transpose(*one[f"boundary_{name}"].dims))


def test_resolution_is_the_interval_of_the_probe_around_the_boundary(result):
    resolution = result["boundary_resolution"]
    assert (resolution.sel(boundary=["focus_onset", "dilution_end"]) == 10).all()
    assert (resolution.sel(boundary=["condensation_end", "direction_1"]) == 20).all()
    sparse = constructed()
    fine = sparse["parameters"].to_dataset(inherit=False)
    sparse["parameters"] = xr.DataTree(fine.isel(step=fine["step"] % 100 == 0).drop_isel(step=[4]))
    found = analyze(sparse)["boundary_resolution"].isel(replica=0, layer=0, head=0)
    assert float(found.sel(boundary="direction_0")) == 100
    assert float(found.sel(boundary="focus_onset")) == 10


def test_what_is_out_of_order_is_said(result):
    assert (result["order_fault"] == "").all()
    short = analyze(constructed(last=700))
    assert set(short["order_fault"].values.ravel().tolist()) == {
        "direction of token to not seen",
        "direction of token of not seen",
    }
    assert not short["in_order"].any()


def test_draw_settings(draw_analyzer, words):
    """Replicas of two settings, which rank the tokens differently."""
    figure = draw_analyzer("stages", constructed())
    assert {"replica 0, pi 1", "replica 1, pi 2", "token of rank 2"} <= set(words(figure))
    assert not figure.axes[0].lines  # there is no band of one replica


@pytest.mark.parametrize("last", [2000, 0])
def test_draw(last, draw_analyzer, words):
    figure = draw_analyzer("stages", constructed(last=last, ranks=ALIKE))
    (timeline,) = figure.axes
    assert [text.get_text() for text in timeline.get_yticklabels()] == ["replica 0", "replica 1"]
    assert len(timeline.patches) == (14 if last else 0)
    assert ("token to" in words(figure)) == (last > 0)
    found = analyze(constructed(last=last, ranks=ALIKE)).isel(layer=0, head=0, setting=0)
    count = int(found["boundary_median"].notnull().sum())
    bands, medians = timeline.lines[::2], timeline.lines[1::2]
    assert len(bands) == len(medians) == count == (11 if last else 0)
    heights = [line.get_ydata()[0] for line in bands]
    assert heights == sorted(set(heights))  # each on its own line, below the replicas
    if last:
        at = found.sel(boundary="direction_2")
        assert bands[-1].get_xdata().tolist() == [float(at["boundary_p10"]), float(at["boundary_p90"])]
        assert medians[-1].get_xdata().tolist() == [float(at["boundary_median"])]


def test_draw_many_tokens(rich_trajectory, run_analyzer, draw_analyzer):
    result = run_analyzer("stages", rich_trajectory)
    assert result.sizes["rank"] == 6  # of the seven tokens that have a key of their own
    draw_analyzer("stages", rich_trajectory, result)


def test_documentation_names_every_variable_boundary_and_option(result):
    text = (Path(__file__).parents[3] / "docs" / "stages.md").read_text(encoding="utf-8")
    boundaries = {name for name in result["boundary"].values.tolist() if not name.startswith("direction_")}
    options = set(registry.get("analyzer", "stages").Options.model_fields) - {"kind"}
    for name in {*map(str, result.data_vars), *boundaries, "direction_k", *options}:
        assert f"`{name}`" in text or f"`{name}(" in text or f'"{name}"' in text, name
    for name, default in registry.get("analyzer", "stages").Options():
        assert f"`{name}` = {default}" in text or name == "kind"
