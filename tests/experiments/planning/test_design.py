"""The plan: complete, random, and drawn again from its seed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.design import LAUNCHERS, PlannedBlock, Scale, compute_hash, draw_seed, plan_blocks
from experiments.models import Job, Run

SCALES = [Scale(), Scale(1, 2), Scale(2, 4)]
names = st.lists(st.text(max_size=5), min_size=1, max_size=4, unique=True)


@given(
    workloads=names,
    environments=names,
    scales=st.integers(1, 3),
    repeats=st.integers(1, 6),
    seed=st.integers(0, 2**31 - 1),
    paired=st.booleans(),
)
def test_every_cell_is_run_exactly_as_often_as_asked(
    workloads, environments, scales, repeats, seed, paired
):
    blocks = plan_blocks(workloads, environments, SCALES[:scales], repeats, seed, paired=paired)
    runs = Counter(
        (block.workload, block.scale, block.repeat, environment)
        for block in blocks
        for environment in block.environments
    )
    assert set(runs.values()) == {1}
    assert set(runs) == {
        (w, s, r, e)
        for w in workloads
        for s in SCALES[:scales]
        for r in range(1, repeats + 1)
        for e in environments
    }
    assert [block.index for block in blocks] == list(range(len(blocks)))
    assert {len(block.environments) for block in blocks} == {len(environments) if paired else 1}


@given(st.integers(0, 2**31 - 1))
def test_an_experiment_cut_short_is_still_balanced(seed):
    blocks = plan_blocks(["blas", "cnn"], ["bare", "sif"], SCALES, 4, seed)
    assert [block.repeat for block in blocks] == sorted(block.repeat for block in blocks)


def test_the_same_seed_draws_the_same_plan_and_another_seed_another():
    arguments = (["blas", "cnn"], ["bare", "sif", "udocker"], SCALES, 5)
    assert plan_blocks(*arguments, 7) == plan_blocks(*arguments, 7)
    assert plan_blocks(*arguments, 7) != plan_blocks(*arguments, 8)


def test_the_order_of_a_recorded_seed_stays_what_it_was():
    """Plans of years ago must be drawn again by today's Python."""
    assert plan_blocks(["blas"], ["bare", "sif", "udocker"], [Scale()], 2, 20261120) == [
        PlannedBlock(0, "blas", Scale(), 1, ("bare", "udocker", "sif")),
        PlannedBlock(1, "blas", Scale(), 2, ("udocker", "bare", "sif")),
    ]


def test_each_environment_is_first_about_equally_often_and_blocks_are_shuffled():
    blocks = plan_blocks(["blas", "cnn"], ["bare", "sif", "udocker"], [Scale()], 3000, 1)
    first = Counter(block.environments[0] for block in blocks)
    assert all(abs(count - 2000) < 150 for count in first.values())  # 4 standard deviations
    led_by_blas = sum(blocks[i].workload == "blas" for i in range(0, 6000, 2))
    assert abs(led_by_blas - 1500) < 110


def test_independent_runs_are_interleaved():
    blocks = plan_blocks(["blas"], ["bare", "sif"], [Scale()], 200, 3, paired=False)
    assert {len(block.environments) for block in blocks} == {1}
    assert 60 < sum(blocks[i].environments == ("bare",) for i in range(0, 400, 2)) < 140


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"environments": ["bare", "bare"]}, "environments"),
        ({"workloads": []}, "workloads"),
        ({"scales": []}, "scales"),
        ({"repeats": 0}, "at least once"),
    ],
)
def test_an_impossible_plan_is_refused_in_words(change, word):
    arguments = {
        "workloads": ["blas"],
        "environments": ["bare", "sif"],
        "scales": [Scale()],
        "repeats": 2,
        "seed": 1,
    }
    with pytest.raises(ValueError, match=word):
        plan_blocks(**(arguments | change))


@pytest.mark.parametrize(
    ("text", "scale", "gpus"),
    [
        ("1x2", Scale(1, 2), 2),
        ("2x4x3", Scale(2, 4, 3), 8),
        ("1x0", Scale(1, 0), 0),
        ("2x4 srun", Scale(2, 4, launcher="srun"), 8),
        ("1x2 mpirun", Scale(1, 2, launcher="mpirun"), 2),
    ],
)
def test_a_scale_is_read_and_written(text, scale, gpus):
    assert Scale.parse(text) == scale
    assert str(scale) == text
    assert scale.gpus == gpus


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        "x2",
        "1x-1",
        "0x1",
        "1x1x0",
        "1x2 ; rm",
        "１x２",
        "1x2srun",
        "1x2 ssh",
        "1x2 srun mpirun",
    ],
)
def test_what_is_no_scale_is_refused(text):
    with pytest.raises(ValueError, match=r"scale"):
        Scale.parse(text)


scales = st.builds(
    Scale,
    st.integers(1, 999_999),
    st.integers(0, 999_999),
    st.integers(1, 999_999),
    st.sampled_from(["", *LAUNCHERS]),
)


@given(scales)
def test_what_is_written_is_what_was_read_and_fits_its_columns(scale):
    assert Scale.parse(str(scale)) == scale
    for model in (Job, Run):
        assert len(str(scale)) <= model._meta.get_field("scale").max_length


@given(scales, scales)
def test_no_two_scales_are_written_alike(one, other):
    assert (str(one) == str(other)) == (one == other)


@pytest.mark.parametrize(
    "text", ["1×4×4", " 1x4x4 ", "2x4   srun"], ids=["crosses", "around", "between"]
)
def test_a_scale_has_one_spelling(text):
    assert str(Scale.parse(text)) == " ".join(text.replace("×", "x").split())


def test_instances_have_their_share():
    assert Scale.parse("1x4x2").gpus_per_instance == 2
    assert Scale.parse("1x4x4").is_packed
    assert not Scale.parse("1x4").is_packed


def test_the_plan_hash_sees_every_change_but_not_the_order_of_keys():
    definition = {"question": "Größe?", "repeats": 5, "margin": 0.02, "scales": ["1x1", "1x2"]}
    assert compute_hash(definition) == compute_hash(dict(reversed(definition.items())))
    assert len(compute_hash(definition)) == 64
    for change in ({"repeats": 6}, {"margin": 0.020001}, {"scales": ["1x2", "1x1"]}):
        assert compute_hash(definition | change) != compute_hash(definition)
    with pytest.raises(ValueError, match="JSON"):
        compute_hash({"margin": float("nan")})


def test_seeds_differ_and_fit_a_database_integer():
    seeds = {draw_seed() for _ in range(20)}
    assert len(seeds) > 15
    assert all(0 <= seed < 2**31 for seed in seeds)
