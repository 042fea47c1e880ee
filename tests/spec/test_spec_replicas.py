"""Which replicas a spec expands to, in which order, under which names."""

from __future__ import annotations

from attndyn.spec import parse_spec


def test_seeds_only(small):
    replicas = small("replicas={seeds: 3, base_seed: 7}").replicas_expanded()
    assert replicas.seeds == (7, 8, 9)
    assert len(replicas) == 3
    assert (replicas.varied, replicas.coordinates) == ({}, {})


def test_grid_runs_first_path_outermost_and_seeds_innermost(small):
    vary = "{optimizer.lr: [1, 2], data.transition.lam: [0.1, 0.2, 0.3]}"
    replicas = small(f"replicas={{seeds: 2, vary: {vary}}}").replicas_expanded()
    assert replicas.seeds == (0, 1) * 6
    assert replicas.varied["optimizer.lr"] == (1.0,) * 6 + (2.0,) * 6
    assert replicas.varied["data.transition.lam"] == (0.1, 0.1, 0.2, 0.2, 0.3, 0.3) * 2
    assert replicas.coordinates == {"optimizer.lr": "lr", "data.transition.lam": "lam"}


def test_zip_goes_value_by_value(small):
    vary = "{optimizer.lr: [1, 2], data.transition.lam: [0.1, 0.2]}"
    replicas = small(f"replicas={{combine: zip, vary: {vary}}}").replicas_expanded()
    assert list(zip(*replicas.varied.values(), strict=True)) == [(1.0, 0.1), (2.0, 0.2)]


def test_each_replica_is_a_spec_of_its_own(small):
    spec = small("replicas={seeds: 2, vary: {data.stationary.ratio: [0.3, 0.6]}}")
    for one, seed, ratio in zip(
        spec.replicas_expanded().specs, (0, 1, 0, 1), (0.3, 0.3, 0.6, 0.6), strict=True
    ):
        assert one.data.stationary.ratio == ratio
        assert (one.replicas.seeds, one.replicas.base_seed, one.replicas.vary) == (1, seed, {})
        assert (one.model, one.optimizer, one.probes) == (spec.model, spec.optimizer, spec.probes)
        alone = parse_spec(one.to_yaml())
        assert alone == one
        assert alone.replicas_expanded().specs == (one,)


def test_optional_fields_may_vary(small):
    spec = small("model.init.std=null", "replicas={vary: {model.init.width_power: [-2, -1.5]}}")
    assert [s.model.init.scale(4) for s in spec.replicas_expanded().specs] == [4.0**-2, 4.0**-1.5]


def test_pi_varies_as_a_whole_and_does_not_take_its_name_from_the_file(small):
    pi = "[[0.5, 0.5], [0.75, 0.25]]"
    spec = small(
        "data.stationary={kind: explicit, pi: [0.9, 0.1]}", f"replicas={{vary: {{data.stationary.pi: {pi}}}}}"
    )
    replicas = spec.replicas_expanded()
    assert replicas.varied["data.stationary.pi"] == ((0.5, 0.5), (0.75, 0.25))
    assert replicas.coordinates == {"data.stationary.pi": "data_stationary_pi"}


def test_paths_with_equal_endings_keep_all_of_their_path(small):
    spec = small(
        "data.transition={kind: random, seed: 1}",
        "replicas={vary: {data.transition.seed: [1, 2], optimizer.eps: [1e-8, 1e-6]}}",
    )
    names = spec.replicas_expanded().coordinates
    assert names == {"data.transition.seed": "data_transition_seed", "optimizer.eps": "eps"}


def test_many_replicas(small):
    spec = small("replicas={seeds: 4, vary: {optimizer.lr: [1, 2, 3, 4], optimizer.beta1: [0.1, 0.2, 0.3]}}")
    assert len(spec.replicas_expanded()) == spec.replicas.count() == 48
