"""JOBS tests of ReFrame, each a job of its own: `reframe -C THIS -c THIS -r`, with $JOBS."""

import os

import reframe as rfm
import reframe.utility.sanity as sn

COUNT = int(os.environ["JOBS"])

site_configuration = {
    "systems": [
        {
            "name": "lab",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "gpu",
                    "scheduler": "slurm",
                    "launcher": "local",
                    "access": ["--partition=gpu"],
                    "environs": ["builtin"],
                    "max_jobs": COUNT,
                    "resources": [{"name": "memory", "options": ["--mem=400M"]}],
                }
            ],
        }
    ],
    "general": [{"remote_detect": False, "perf_info_level": "info"}],
}


@rfm.simple_test
class OneSecond(rfm.RunOnlyRegressionTest):
    number = parameter(range(COUNT))  # noqa: F821 - ReFrame's own words in the body of a class
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sleep"
    executable_opts = ["1"]
    num_tasks = 1
    num_tasks_per_node = 1
    num_cpus_per_task = 1
    time_limit = "2m"
    extra_resources = {"memory": {}}

    @sanity_function  # noqa: F821
    def ended_well(self):
        return sn.assert_eq(self.job.exitcode, 0)
