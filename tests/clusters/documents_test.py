"""The job file for Kubeflow says what its operator understands, and what it says runs."""

import json
import pathlib
import unittest

from job import FEW_STEPS, JobTest, free_addresses, knows_multi_worker, skip_module
from program import PLAIN, SMALL

try:
    import jsonschema
    import yaml
except ImportError as missing:
    jsonschema = yaml = None
    MISSING = f"Python's module {missing.name} is not installed (packages python3-yaml, python3-jsonschema)"

JOB_FILE = pathlib.Path(__file__).parents[2] / "docs/clusters/kubeflow-tfjob.yaml"


def an_object(properties, required=(), others=False):
    return {
        "type": "object", "properties": properties, "required": list(required), "additionalProperties": others,
    }


# The fields that a TFJob may have, by the Go types of Kubeflow's training operator (package kubeflow.org/v1: TFJobSpec,
# RunPolicy, ReplicaSpec, RestartPolicy, CleanPodPolicy) and by Kubernetes' PodSpec, as far as the job file needs them.
# What is not listed is refused, so that a misspelt field does not pass for an unknown one.
TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 1}
TEXTS = {"type": "array", "items": TEXT}
QUANTITIES = {"type": "object", "additionalProperties": {"type": "string"}}
CONTAINER = an_object(
    {
        "name": TEXT,
        "image": TEXT,
        "command": TEXTS,
        "args": TEXTS,
        "env": {
            "type": "array",
            "items": an_object(
                {
                    "name": TEXT,
                    "value": {"type": "string"},
                    "valueFrom": an_object({"secretKeyRef": an_object({"name": TEXT, "key": TEXT}, ["name", "key"])}),
                },
                ["name"],
            ),
        },
        "ports": {
            "type": "array",
            "items": an_object({"name": TEXT, "containerPort": {"type": "integer", "minimum": 1, "maximum": 65535}}, ["containerPort"]),
        },
        "resources": an_object({"requests": QUANTITIES, "limits": QUANTITIES}),
        "volumeMounts": {"type": "array", "items": an_object({"name": TEXT, "mountPath": TEXT}, ["name", "mountPath"])},
    },
    ["name", "image"],
)
POD = an_object(
    {
        "containers": {"type": "array", "items": CONTAINER, "minItems": 1},
        "volumes": {"type": "array", "items": an_object({"name": TEXT, "emptyDir": {"type": "object"}}, ["name"])},
    },
    ["containers"],
)
REPLICAS = an_object(
    {
        "replicas": COUNT,
        "restartPolicy": {"enum": ["Always", "OnFailure", "Never", "ExitCode"]},
        "template": an_object({"metadata": {"type": "object"}, "spec": POD}, ["spec"]),
    },
    ["template"],
)
TFJOB = an_object(
    {
        "apiVersion": {"const": "kubeflow.org/v1"},
        "kind": {"const": "TFJob"},
        "metadata": an_object({"name": TEXT, "namespace": TEXT, "labels": {"type": "object"}}, ["name"]),
        "spec": an_object(
            {
                "runPolicy": an_object(
                    {
                        "cleanPodPolicy": {"enum": ["All", "Running", "None"]},
                        "ttlSecondsAfterFinished": COUNT,
                        "activeDeadlineSeconds": COUNT,
                        "backoffLimit": {"type": "integer", "minimum": 0},
                    }
                ),
                "successPolicy": {"enum": ["", "AllWorkers"]},
                "enableDynamicWorker": {"type": "boolean"},
                "tfReplicaSpecs": {
                    **an_object({role: REPLICAS for role in ("Chief", "Master", "Worker", "PS", "Evaluator")}),
                    "minProperties": 1,
                },
            },
            ["tfReplicaSpecs"],
        ),
    },
    ["apiVersion", "kind", "metadata", "spec"],
)


def setUpModule():
    skip_module(MISSING if yaml is None else "")


class Kubeflow(JobTest):
    def setUp(self):
        super().setUp()
        self.job = yaml.safe_load(JOB_FILE.read_text())
        self.workers = self.job["spec"]["tfReplicaSpecs"]["Worker"]

    def container(self):
        return self.workers["template"]["spec"]["containers"][0]

    def test_the_operator_understands_every_field(self):
        jsonschema.Draft7Validator.check_schema(TFJOB)
        jsonschema.Draft7Validator(TFJOB).validate(self.job)

    def test_a_misspelt_field_would_be_found(self):
        self.workers["restartPolcy"] = "Never"
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.Draft7Validator(TFJOB).validate(self.job)

    def test_its_parts_fit_together(self):
        pod = self.workers["template"]["spec"]
        container = self.container()
        self.assertEqual(container["name"], "tensorflow", "the operator looks for this container")
        self.assertEqual([port["name"] for port in container["ports"]], ["tfjob-port"])
        volumes = {volume["name"] for volume in pod["volumes"]}
        self.assertEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)
        self.assertIn("DTRAIN_JOB_TOKEN", [variable["name"] for variable in container["env"]])

    @unittest.skipUnless(knows_multi_worker(), "this program does not know the strategy multi-worker")
    def test_its_command_runs_as_the_operator_starts_it(self):
        command = [*self.container()["command"], *self.container()["args"]]
        self.assertEqual(command[0], "dtrain")
        count = self.workers["replicas"]
        cluster = {"worker": free_addresses(count)}
        pods = []
        for index in range(count):
            # The operator adds the environment to what a cluster is, and counts a role's name in lower case.
            place = {"cluster": cluster, "task": {"type": "worker", "index": index}, "environment": "cloud"}
            variables = {"TF_CONFIG": json.dumps(place), "DTRAIN_JOB_TOKEN": "secret"}
            small = [*SMALL, *FEW_STEPS, PLAIN, "--out", "out"]
            pods.append(self.start(*command[1:], *small, name=f"pod{index}", environment=variables))
        for pod in pods:
            self.expect_end(pod, 0, 90)
        self.assertTrue(self.result()["complete"])
