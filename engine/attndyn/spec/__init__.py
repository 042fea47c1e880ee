"""The specification of an experiment: its sections, how it is read, and what is wrong with it."""

from attndyn.spec.load import load_spec, parse_spec
from attndyn.spec.replicas import Replicas
from attndyn.spec.schema import json_schema
from attndyn.spec.sections import ReplicaOptions, Spec, Training

__all__ = ["ReplicaOptions", "Replicas", "Spec", "Training", "json_schema", "load_spec", "parse_spec"]
