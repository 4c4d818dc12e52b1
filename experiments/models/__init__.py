"""Definitions and results. PostgreSQL is the truth about both."""

from experiments.models.advisory import Advisory
from experiments.models.alert import Alert, AlertEnding
from experiments.models.answered_request import AnsweredRequest
from experiments.models.api_token import ApiToken
from experiments.models.audit import AuditEntry
from experiments.models.catalogue import Environment, SentFile, Workload
from experiments.models.checks import CheckReport, ConnectionTest, HostKey
from experiments.models.citation import Citation, Deposit, DepositToken, SigningKey
from experiments.models.cluster import Cluster, Runtime
from experiments.models.cluster_draft import ClusterDraft, ClusterReading
from experiments.models.cluster_use import ClusterUse, GPUMonth
from experiments.models.code_copies import CodeArchive, CodeCopy
from experiments.models.credential import Credential, Origin
from experiments.models.data_sets import DataCopy, DataSet
from experiments.models.definition_text import DefinitionText
from experiments.models.experiment import Experiment
from experiments.models.experiment_value import ExperimentValue, ValueChange
from experiments.models.extension import Extension
from experiments.models.images import Image, ImageImport, StagedImage
from experiments.models.imported_bundle import ImportedBundle
from experiments.models.kept_comparison import KeptComparison
from experiments.models.kept_robustness import KeptRobustness
from experiments.models.last_visit import LastVisit
from experiments.models.link import ShareLink
from experiments.models.live_reading import LiveReading
from experiments.models.measure_notes import MeasureNotes
from experiments.models.node_samples import NodeSamples
from experiments.models.notification import (
    NoticedExperiment,
    Notification,
    NotificationChoices,
    NotificationKind,
    NotificationWay,
)
from experiments.models.notification_message import NotificationDelivery, NotificationMessage
from experiments.models.operation import Operation
from experiments.models.own_preset import OwnPreset
from experiments.models.parity import EnvironmentInspection, Waiver
from experiments.models.partition import Partition
from experiments.models.pause import Pause
from experiments.models.published_table import PublishedTable
from experiments.models.recurring import LaunchReason, Recurrence, RecurringExperiment
from experiments.models.removal import Removal
from experiments.models.results import Measurement, RunFile, Series, Snapshot
from experiments.models.run import Event, Job, Run
from experiments.models.run_parameter import RunParameter
from experiments.models.saved_view import SavedView
from experiments.models.segment import Segment
from experiments.models.service_sign import ServiceSign
from experiments.models.stored_record import StoredRecord
from experiments.models.study import Study, StudyExperiment
from experiments.models.trusted_key import TrustedKey
from experiments.models.unsaved_form import UnsavedForm
from experiments.models.user import Role, User
from experiments.models.webhook import Webhook, WebhookAnswer

__all__ = [
    "Advisory",
    "Alert",
    "AlertEnding",
    "AnsweredRequest",
    "ApiToken",
    "AuditEntry",
    "CheckReport",
    "Citation",
    "Cluster",
    "ClusterDraft",
    "ClusterReading",
    "ClusterUse",
    "CodeArchive",
    "CodeCopy",
    "ConnectionTest",
    "Credential",
    "DataCopy",
    "DataSet",
    "DefinitionText",
    "Deposit",
    "DepositToken",
    "Environment",
    "EnvironmentInspection",
    "Event",
    "Experiment",
    "ExperimentValue",
    "Extension",
    "GPUMonth",
    "HostKey",
    "Image",
    "ImageImport",
    "ImportedBundle",
    "Job",
    "KeptComparison",
    "KeptRobustness",
    "LastVisit",
    "LaunchReason",
    "LiveReading",
    "MeasureNotes",
    "Measurement",
    "NodeSamples",
    "NoticedExperiment",
    "Notification",
    "NotificationChoices",
    "NotificationDelivery",
    "NotificationKind",
    "NotificationMessage",
    "NotificationWay",
    "Operation",
    "Origin",
    "OwnPreset",
    "Partition",
    "Pause",
    "PublishedTable",
    "Recurrence",
    "RecurringExperiment",
    "Removal",
    "Role",
    "Run",
    "RunFile",
    "RunParameter",
    "Runtime",
    "SavedView",
    "Segment",
    "SentFile",
    "Series",
    "ServiceSign",
    "ShareLink",
    "SigningKey",
    "Snapshot",
    "StagedImage",
    "StoredRecord",
    "Study",
    "StudyExperiment",
    "TrustedKey",
    "UnsavedForm",
    "User",
    "ValueChange",
    "Waiver",
    "Webhook",
    "WebhookAnswer",
    "Workload",
]
