"""The parameters of `cnn`, in the order of its form."""

from dataclasses import replace

from runners.payload.training.networks import NETWORKS
from runners.workloads.base import make_step_parameters
from runners.workloads.parameters import Parameter

NETWORK, BATCH, LENGTH, MACHINE = "Network and data", "Step", "Length", "Framework and machine"
REAL = ("mnist", "cifar10", "imagenet")
TRAINED = ("mode", ("training",))

# The parameters of all workloads with steps; here each gets a heading.
STEPPING = {parameter.name: parameter for parameter in make_step_parameters(steps=400, warm_up=40)}

PARAMETERS = (
    Parameter(
        name="network",
        group=NETWORK,
        type="choice",
        default="small",
        choices=tuple(NETWORKS),
        help="small: three convolutions, for a laptop. mnist: the network of TensorFlow's "
        "tutorial. resnet56 is for CIFAR-10, the others for ImageNet.",
    ),
    Parameter(
        name="data",
        group=NETWORK,
        type="choice",
        default="synthetic",
        choices=("synthetic", "made", *REAL),
        help="synthetic: one batch of patterns under noise, made on the device and trained on "
        "again and again; nothing is read. made: 2,000 such images drawn in memory, with 500 held "
        "out, for the small networks. The others are read from data_directory.",
    ),
    Parameter(
        name="data_directory",
        group=NETWORK,
        type="text",
        default="",
        when=("data", REAL),
        help="Where the files of the data set lie, as the program sees them: an environment's "
        "mounts decide what a container sees.",
    ),
    Parameter(
        name="image_size",
        group=NETWORK,
        type="integer",
        default=0,
        minimum=0,
        maximum=1024,
        unit="pixels",
        help="Height and width of an image. 0: the network's own, from 28 to 299.",
    ),
    Parameter(
        name="batch_size",
        group=BATCH,
        type="integer",
        default=32,
        minimum=1,
        maximum=65536,
        unit="images",
        help="Images in one step.",
    ),
    Parameter(
        name="batch_per",
        group=BATCH,
        type="choice",
        default="job",
        choices=("job", "GPU"),
        help="Whose batch it is. job: all GPUs share it, more GPUs have less to do each "
        "(strong scaling). GPU: each has so many, more GPUs do more (weak scaling).",
    ),
    Parameter(
        name="mode",
        group=BATCH,
        type="choice",
        default="training",
        choices=("training", "forward"),
        help="training: forward, backward and update. forward: the network is only used.",
    ),
    Parameter(
        name="optimizer",
        group=BATCH,
        type="choice",
        default="momentum",
        choices=("sgd", "momentum", "rmsprop", "adam"),
        when=TRAINED,
        help="momentum: stochastic gradient descent with momentum 0.9; sgd: without.",
    ),
    Parameter(
        name="learning_rate",
        group=BATCH,
        type="number",
        default=0.01,
        minimum=0,
        maximum=1e9,
        when=TRAINED,
        help="Of the optimizer: of every step, or where the schedule begins.",
    ),
    Parameter(
        name="schedule",
        group=BATCH,
        type="choice",
        default="constant",
        choices=("constant", "step", "cosine"),
        label="Schedule of the learning rate",
        when=TRAINED,
        help="constant: the same rate to the end. step: multiplied by a factor now and then. "
        "cosine: falls to the final rate along half a cosine.",
    ),
    Parameter(
        name="learning_rate_warm_up",
        group=BATCH,
        type="integer",
        default=0,
        minimum=0,
        maximum=1_000_000,
        label="Rise of the learning rate",
        when=TRAINED,
        help="Steps in which the rate rises linearly to its full value, or epochs where the length "
        "is given in epochs; 0: none. It has nothing to do with the steps that no mean counts.",
    ),
    Parameter(
        name="decay_every",
        group=BATCH,
        type="integer",
        default=0,
        minimum=0,
        maximum=1_000_000,
        when=("schedule", ("step",)),
        help="Steps from one drop of the rate to the next, or epochs where the length is given in "
        "epochs, counted from the beginning.",
    ),
    Parameter(
        name="decay_factor",
        group=BATCH,
        type="number",
        default=0.1,
        minimum=0,
        maximum=1,
        when=("schedule", ("step",)),
        help="What the rate is multiplied by at each drop.",
    ),
    Parameter(
        name="final_learning_rate",
        group=BATCH,
        type="number",
        default=0,
        minimum=0,
        maximum=1e9,
        when=("schedule", ("cosine",)),
        help="What the rate falls to.",
    ),
    Parameter(
        name="precision",
        group=BATCH,
        type="choice",
        default="float32",
        choices=("float32", "mixed_float16", "mixed_bfloat16"),
        help="Precision of the layers; the weights stay in float32.",
    ),
    replace(
        STEPPING["steps"],
        group=LENGTH,
        help="Steps in all, the warm-up among them; with epochs of synthetic data, those of "
        "one epoch. Epochs of a data set are as long as it is.",
    ),
    replace(STEPPING["burn_in"], group=LENGTH),
    Parameter(
        name="epochs",
        group=LENGTH,
        type="integer",
        default=0,
        minimum=0,
        maximum=100_000,
        help="How often to go through the data set. 0: the number of steps decides.",
    ),
    Parameter(
        name="evaluate",
        group=LENGTH,
        type="flag",
        default=True,
        when=TRAINED,
        help="Measure the accuracy on images that were not trained on, after the last step. "
        "With a large network that takes longer than a short run: choose no where only the "
        "speed is asked for, and nothing is evaluated at all.",
    ),
    Parameter(
        name="evaluate_every",
        group=LENGTH,
        type="integer",
        default=0,
        minimum=0,
        maximum=1_000_000,
        when=TRAINED,
        help="Steps from one evaluation to the next, or epochs where the length is given in "
        "epochs; 0: only one, at the end. No step's time holds any of it.",
    ),
    Parameter(
        name="target_accuracy",
        group=LENGTH,
        type="number",
        default=0,
        minimum=0,
        maximum=1,
        when=TRAINED,
        help="Share of images to get right: the first evaluation that finds it gives the time "
        "to accuracy. 0: none.",
    ),
    Parameter(
        name="segments",
        group=LENGTH,
        type="integer",
        default=1,
        minimum=1,
        maximum=100,
        unit="jobs",
        label="Jobs of a run, at most",
        when=TRAINED,
        help="With more than 1, a run whose time limit comes before its last step leaves a "
        "checkpoint, and a further job on the same node goes on. Their training times are added; "
        "saving, restoring and waiting are stated apart.",
    ),
    Parameter(
        name="checkpoint_every",
        group=LENGTH,
        type="integer",
        default=0,
        minimum=0,
        maximum=1_000_000,
        when=TRAINED,
        help="Steps from one checkpoint to the next, or epochs where the length is given in "
        "epochs, for jobs that are killed; 0: only before the time limit. Needs more than one job.",
    ),
    Parameter(
        name="framework",
        group=MACHINE,
        type="choice",
        default="tensorflow",
        choices=("tensorflow", "jax", "pytorch"),
        help="What Keras computes with. The environment has to bring it, and Keras 3.",
    ),
    Parameter(
        name="parallel",
        group=MACHINE,
        type="choice",
        default="mirrored",
        choices=("mirrored", "horovod", "ddp"),
        when=("framework", ("tensorflow", "pytorch")),
        help="How several GPUs work together. mirrored: one process on all GPUs of a node, "
        "TensorFlow alone. horovod: one process a GPU, TensorFlow in an image with Horovod. "
        "ddp: one process a GPU, PyTorch's DistributedDataParallel.",
    ),
    Parameter(
        name="deterministic",
        group=MACHINE,
        type="flag",
        default=True,
        help="Same seed, bitwise the same losses: this proves that environments compute "
        "the same. It costs GPUs speed (no XLA on TensorFlow, fewer kernels to choose from); "
        "choose no for throughput as users see it.",
    ),
    *(replace(STEPPING[name], group=MACHINE) for name in ("threads", "seed", "seeds")),
)
