"""All presets, in the order of the page."""

from experiments.presets.horovod_table import DDP, HOROVOD, SEVERAL_NODES
from experiments.presets.real_data import RUNTIMES_ON_IMAGENET, SYNTHETIC_AGAINST_REAL
from experiments.presets.several_gpus import LONG_TRAINING, MULTI_GPU, TF_CNN
from experiments.presets.software import ANATOMY, BLAS, COLD_AND_WARM
from experiments.presets.udocker import FIGURE_1, PACKED, TABLE_3

ALL = (
    TABLE_3,
    FIGURE_1,
    PACKED,
    MULTI_GPU,
    SYNTHETIC_AGAINST_REAL,
    RUNTIMES_ON_IMAGENET,
    LONG_TRAINING,
    SEVERAL_NODES,
    HOROVOD,
    DDP,
    TF_CNN,
    BLAS,
    ANATOMY,
    COLD_AND_WARM,
)
