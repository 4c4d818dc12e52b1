"""Tables of the studies that the presets repeat, as they were printed, to be compared here.

Figures are the studies'. A table that gives no spread and no number of runs ends in ratios with NO
INFERENCE: nothing is added to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.models import PublishedTable, User
from experiments.presets.papers import BENCHMARKING, REMOTE_SENSING, Paper


@dataclass(frozen=True, kw_only=True)
class KnownTable:
    """One published table, with the roles of those columns whose names do not tell them."""

    key: str
    title: str
    source: str
    """The place in the paper: "Table 3"."""
    paper: Paper
    question: str
    baseline: str
    text: str
    roles: Mapping[str, str] = field(default_factory=dict)
    scaling: str = ""
    """Whose work stays the same on more GPUs: "strong", "weak"; "" where that is not the matter."""

    @property
    def reading(self) -> dict[str, object]:
        """Return how the table is to be read, as the row of a published table stores it."""
        return {"roles": dict(self.roles)}


TRAINING_TIME = KnownTable(
    key="training-time",
    title="Training time of ResNet50-FCN: bare metal and uDocker",
    source="Table 3",
    paper=REMOTE_SENSING,
    question="What did uDocker add to the training time of ResNet50-FCN on 1, 2 and 4 GPUs?",
    baseline="bare metal",
    text="""gpus,environment,mean_s,standard_error_s,runs
1,bare metal,3710,10,3
1,uDocker,3730,10,3
2,bare metal,2390,30,3
2,uDocker,2360,16,3
4,bare metal,1860,40,3
4,uDocker,1880,10,3
""",
    scaling="strong",
)
SHORT_RUNS = KnownTable(
    key="short-runs",
    title="Images per second on two machines, and as TensorFlow published them",
    source="“Overview of multi-GPU (short) runs”",
    paper=BENCHMARKING,
    question="How many images per second did two machines train in udocker, and TensorFlow's own "
    "K80?",
    baseline="Official TensorFlow, K80",
    text="""network,gpus,environment,images_per_second
ResNet50,1,"Official TensorFlow, K80",51
ResNet50,2,"Official TensorFlow, K80",99
ResNet50,4,"Official TensorFlow, K80",194
ResNet50,1,"LSDF-GPU, K80, udocker",56
ResNet50,2,"LSDF-GPU, K80, udocker",103
ResNet50,4,"LSDF-GPU, K80, udocker",205
ResNet50,1,"ForHLR-II, GTX 980 Ti, udocker",118
ResNet50,2,"ForHLR-II, GTX 980 Ti, udocker",225
ResNet50,4,"ForHLR-II, GTX 980 Ti, udocker",426
AlexNet,1,"Official TensorFlow, K80",639
AlexNet,2,"Official TensorFlow, K80",1136
AlexNet,4,"Official TensorFlow, K80",2067
AlexNet,1,"LSDF-GPU, K80, udocker",604
AlexNet,2,"LSDF-GPU, K80, udocker",1086
AlexNet,4,"LSDF-GPU, K80, udocker",1998
AlexNet,1,"ForHLR-II, GTX 980 Ti, udocker",1314
AlexNet,2,"ForHLR-II, GTX 980 Ti, udocker",2320
AlexNet,4,"ForHLR-II, GTX 980 Ti, udocker",4006
""",
    scaling="weak",
)
LONG_TRAINING_TIMES = KnownTable(
    key="long-training-times",
    title="Long training of ResNet50 in udocker: time by GPUs",
    source="“Long training, ResNet50”",
    paper=BENCHMARKING,
    question="How much sooner did the long training of ResNet50 end on 2 and 4 GPUs than on one?",
    baseline="1 GPU",
    text="""machine,epochs,environment,training time (hh:mm),top_1,top_5
LSDF-GPU,5,1 GPU,33:45,0.36,0.63
LSDF-GPU,5,2 GPUs,16:46,0.37,0.64
LSDF-GPU,5,4 GPUs,8:34,0.35,0.62
ForHLR-II,10,1 GPU,30:23,0.53,0.78
ForHLR-II,10,2 GPUs,15:50,0.53,0.79
ForHLR-II,10,4 GPUs,8:16,0.51,0.76
""",
    roles={"top_1": "ignore", "top_5": "ignore"},
)
HOROVOD_RATES = KnownTable(
    key="horovod-rates",
    title="ResNet50 with Horovod on several nodes: images per second",
    source="“Distributed training with Horovod”",
    paper=BENCHMARKING,
    question="How many times as many images per second did ResNet50 train on several GPUs and "
    "nodes as on one GPU?",
    baseline="1 node x 1 GPU, TensorFlow 1.10",
    text="""environment,images_per_second,data,batch
"1 node x 1 GPU, TensorFlow 1.10",118,ImageNet,64
"1 node x 2 GPUs, TensorFlow 1.10",225,ImageNet,64
"1 node x 4 GPUs, TensorFlow 1.10",426,ImageNet,64
"2 nodes x 1 GPU, Horovod on 1.10",252,synthetic,64
"12 nodes x 1 GPU, Horovod on 1.10",1413,synthetic,64
"2 nodes x 2 GPUs, Horovod on 1.12",492,synthetic,64
"2 nodes x 4 GPUs, Horovod on 1.12",974,synthetic,64
"6 nodes x 4 GPUs, Horovod on 1.12",2437,ImageNet,32
""",
    roles={"data": "ignore", "batch": "ignore"},
)

KNOWN_TABLES: dict[str, KnownTable] = {
    table.key: table for table in (TRAINING_TIME, SHORT_RUNS, LONG_TRAINING_TIMES, HOROVOD_RATES)
}


def fill_in(known: KnownTable, owner: User) -> PublishedTable:
    """Return the row that a person would store for this table, not stored yet."""
    return PublishedTable(
        owner=owner,
        question=known.question,
        source=f"{known.source} of {known.paper.citation}"
        + (f" https://doi.org/{known.paper.doi}" if known.paper.doi else ""),
        text=known.text,
        baseline=known.baseline,
        reading=known.reading,
    )
