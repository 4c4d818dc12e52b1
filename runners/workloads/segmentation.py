"""`segmentation`: a network that gives each pixel of aerial images one of six classes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from runners.payload.training.tiles import STRIDE
from runners.workloads.base import TIMES, Batch, Processes, Workload
from runners.workloads.cnn import Cnn, why_not_on_replicas, why_not_over_several_jobs
from runners.workloads.cnn_parameters import BATCH, LENGTH
from runners.workloads.page_cache import PREPARED
from runners.workloads.parameters import Parameter
from runners.workloads.results import Metric

TILES = "Tiles and network"
CNN_PARAMETERS = {parameter.name: parameter for parameter in Cnn.parameters}
FROM_FILES = ("data", ("hdf5",))
MADE = ("data", ("made",))


class Segmentation(Workload):
    kind = "segmentation"
    label = "Segmenting aerial images"
    description = (
        "A fully convolutional ResNet50 with connections from strides 8, 16 and 32 says for every "
        "pixel of a tile which of six classes it is. Trained with Adam on tiles and their copies, "
        "mirrored and turned by chance; every epoch is timed. Tiles come from HDF5, as users of "
        "the Vaihingen data set prepare them, or are made. The accuracy is measured on tiles that "
        "were not trained on, at no epoch's expense."
    )
    parameters = (
        Parameter(
            name="data",
            group=TILES,
            type="choice",
            default="made",
            choices=("made", "hdf5"),
            help="made: regions with colours and checks under noise, the same bytes for the same "
            "seed. hdf5: two files in data_directory.",
        ),
        replace(CNN_PARAMETERS["data_directory"], group=TILES, when=FROM_FILES),
        Parameter(
            name="train_file",
            group=TILES,
            type="text",
            default="vaihingen_train.hdf5",
            when=FROM_FILES,
            help="Its tiles are trained on.",
        ),
        Parameter(
            name="validation_file",
            group=TILES,
            type="text",
            default="vaihingen_val.hdf5",
            when=FROM_FILES,
            help="Its tiles are held out: the accuracy is measured on them.",
        ),
        Parameter(
            name="images_name",
            group=TILES,
            type="text",
            default="x",
            when=FROM_FILES,
            help="The data set of the images in both files: bytes, tiles x side x side x 3.",
        ),
        Parameter(
            name="labels_name",
            group=TILES,
            type="text",
            default="y",
            when=FROM_FILES,
            help="That of the labels: a whole number for each pixel, or one-hot (x 6), or the "
            "colours of the ISPRS benchmark (x 3).",
        ),
        Parameter(
            name="first_label",
            group=TILES,
            type="integer",
            default=1,
            minimum=0,
            maximum=1,
            when=FROM_FILES,
            help="The first of six whole numbers that are labels: 0 to 5, or 1 to 6.",
        ),
        Parameter(
            name="samples",
            group=TILES,
            type="integer",
            default=256,
            minimum=2,
            maximum=100_000,
            unit="tiles",
            when=MADE,
            help="Tiles in an epoch: half of them are made, the others are their turned copies. "
            "Published: 4166.",
        ),
        Parameter(
            name="tile_size",
            group=TILES,
            type="integer",
            default=64,
            minimum=STRIDE,
            maximum=1024,
            unit="pixels",
            when=MADE,
            help=f"Height and width of a tile, a multiple of {STRIDE}. Published: 256.",
        ),
        Parameter(
            name="width",
            group=TILES,
            type="integer",
            default=16,
            minimum=4,
            maximum=256,
            unit="channels",
            help="Of the network's first stage. Published: 64, which is ResNet50; with less it is "
            "as deep, and thinner, and a laptop trains it.",
        ),
        replace(CNN_PARAMETERS["batch_size"], default=16, unit="tiles", help="Tiles in one step."),
        CNN_PARAMETERS["batch_per"],
        Parameter(
            name="learning_rate",
            group=BATCH,
            type="number",
            default=0.001,
            minimum=0,
            maximum=1e9,
            help="Of Adam; its other settings are those of Keras.",
        ),
        CNN_PARAMETERS["precision"],
        Parameter(
            name="epochs",
            group=LENGTH,
            type="integer",
            default=6,
            minimum=1,
            maximum=100_000,
            help="How often to go through the tiles and their copies. Published: 20.",
        ),
        replace(CNN_PARAMETERS["burn_in"], default=5),
        Parameter(
            name="evaluate_every",
            group=LENGTH,
            type="integer",
            default=0,
            minimum=0,
            maximum=100_000,
            unit="epochs",
            help="From one evaluation to the next; 0: only one, at the end. No epoch's time holds "
            "any of it.",
        ),
        Parameter(
            name="predict_size",
            group=LENGTH,
            type="integer",
            default=0,
            minimum=0,
            maximum=16384,
            unit="pixels",
            help="Height and width of a larger image to use the network on after the training, in "
            "windows that overlap by half; put together from held-out tiles. 0: none.",
        ),
        replace(CNN_PARAMETERS["segments"], when=None),
        replace(
            CNN_PARAMETERS["checkpoint_every"],
            when=None,
            unit="epochs",
            help="From one checkpoint to the next, for jobs that are killed; 0: only before the "
            "time limit. Needs more than one job.",
        ),
        *(
            CNN_PARAMETERS[name]
            for name in ("framework", "parallel", "deterministic", "threads", "seed", "seeds")
        ),
        PREPARED,
    )
    metrics = (
        Metric("training_time", "s", "lower", "All epochs, without evaluations"),
        Metric("epoch_time", "s", "lower", "Time per epoch"),
        *TIMES,
        Metric("tiles_per_second", "tiles/s", "higher", "Throughput"),
        Metric("loss", "1", "lower", "Loss of the last step"),
        Metric("accuracy", "1", "higher", "Pixels of held-out tiles that are right"),
        Metric("mean_iou", "1", "higher", "Intersection over union, mean over the classes"),
        Metric("prediction_time", "s", "lower", "Prediction of the larger image"),
        Metric("prediction_accuracy", "1", "higher", "Pixels of the larger image that are right"),
    )
    primary = "training_time"
    rates: ClassVar[Mapping[str, str]] = {"tiles_per_second": "step_time"}
    batch = "total"
    most_gpus = Cnn.most_gpus
    most_nodes = Cnn.most_nodes

    @classmethod
    def choose_batch(cls, parameters: Mapping[str, Any]) -> Batch:
        return Cnn.choose_batch(parameters)

    @classmethod
    def choose_processes(cls, parameters: Mapping[str, Any]) -> Processes:
        return Cnn.choose_processes(parameters)

    @classmethod
    def list_metrics(cls, parameters: Mapping[str, Any]) -> tuple[Metric, ...]:
        unused = set() if parameters.get("predict_size") else {"prediction_time"}
        unused |= {"prediction_accuracy"} if unused else set()
        return tuple(metric for metric in cls.metrics if metric.name not in unused)

    @classmethod
    def list_refusals(
        cls, parameters: Mapping[str, Any], *, nodes: int, gpus: int, processes: int
    ) -> list[str]:
        """Return why a job with these parameters cannot run at this scale; each with its cure."""
        settings = {parameter.name: parameter.default for parameter in cls.parameters} | dict(
            parameters
        )
        reasons = why_not_on_replicas(settings, max(nodes * gpus, processes, 1))
        reasons += [f"{reason}." for reason in why_not_over_several_jobs(settings, processes)]
        if settings["data"] == "hdf5" and not settings["data_directory"]:
            reasons.append("data=hdf5 needs a data_directory.")
        if settings["data"] == "made":
            reasons += _check_synthetic(settings, max(nodes * gpus, processes, 1))
        return reasons


def _check_synthetic(settings: Mapping[str, Any], replicas: int) -> list[str]:
    """Return why tiles cannot be made with these parameters: sentences, each with a cure."""
    reasons = []
    side, samples = settings["tile_size"], settings["samples"] // 2 * 2
    if side % STRIDE:
        reasons.append(
            f"A tile_size of {side} cannot be divided by the network's deepest stride: choose a "
            f"multiple of {STRIDE}."
        )
    if 0 < settings["predict_size"] < side:
        reasons.append(
            f"A predict_size of {settings['predict_size']} is less than one tile: choose {side} or "
            "more, or 0 for none."
        )
    batch = settings["batch_size"] * (replicas if settings["batch_per"] == "GPU" else 1)
    if batch > samples:
        reasons.append(
            f"A batch of {batch} tiles for the whole job is more than the {samples} of an epoch: "
            "choose a smaller batch or more samples."
        )
    elif settings["burn_in"] >= settings["epochs"] * (samples // batch):
        reasons.append(
            f"A warm-up of {settings['burn_in']} steps leaves none of the "
            f"{settings['epochs'] * (samples // batch)} steps of all epochs: make it shorter."
        )
    return reasons
