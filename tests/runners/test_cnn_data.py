"""`cnn` on files of a data set, as the cluster runs it, with JAX on the CPU."""

from pathlib import Path

from runners.workloads import WORKLOADS
from tests.runners.data_files import write_mnist
from tests.runners.payload_runs import IN_A_HURRY, left, run_payload

CNN = WORKLOADS["cnn"]


def test_epochs_of_mnist_are_trained_and_measured(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist", train=60, test=20, packed=True)
    parameters = CNN.clean(
        {
            "framework": "jax",
            "network": "small",
            "data": "mnist",
            "data_directory": str(tmp_path / "mnist"),
            "image_size": 16,
            "batch_size": 16,
            "epochs": 4,
            "burn_in": 1,
            "evaluate_every": 2,
        }
    )
    ran = run_payload(tmp_path / "run", "cnn", parameters, variables=IN_A_HURRY)
    assert (ran.returncode, ran.stderr) == (0, "")
    result = CNN.read(left(ran.result), parameters)
    assert len(result.series["step_time"][1]) == 4 * (60 // 16)
    assert result.series["accuracy_step"][1] == [6, 12]
    assert result.facts["image_shape"] == [16, 16, 1]
    assert {"data", "import", "evaluation"} <= set(result.phases)
    losses = result.series["loss"][1]
    assert losses[-1] < losses[0]


def test_a_missing_data_set_is_named_before_any_framework_is_loaded(tmp_path: Path) -> None:
    """TensorFlow is not even installed here, and that is not what the run fails of."""
    asked = {"data": "cifar10", "network": "resnet56", "data_directory": f"{tmp_path}/none"}
    ran = run_payload(tmp_path / "run", "cnn", CNN.clean(asked))
    assert (ran.returncode, ran.result) == (4, None)
    named = (tmp_path / "run" / "runs" / "0-x" / "failure").read_text()
    assert named == ran.stderr.strip()
    assert named.startswith(f"data set unusable: {tmp_path}/none, the folder of the data set")
    assert "add the folder to the environment's binds" in named
