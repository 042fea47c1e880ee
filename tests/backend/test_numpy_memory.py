"""Temporaries of a step are not returned to the system and faulted in again at the next one."""

import platform
import subprocess
import sys

import pytest

# a fresh process: what an allocator does depends on all that went before
STEPS = """
import resource, sys
from attndyn.simulation import Simulation
from attndyn.spec.load import load_spec

quiet = ["expect=[]", "analyzers=[]", "probes={}"]
spec = load_spec(sys.argv[1], [*quiet, "replicas.seeds=8", "training.steps=100000"])
simulation = Simulation(spec, "numpy")

def faults(steps):
    end, before = simulation.step + steps, resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    simulation.run(interrupted=lambda: simulation.step >= end)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / steps

faults(10)
print(faults(20))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="about glibc's allocator")
def test_steps_fault_in_no_memory(pytestconfig):
    spec = pytestconfig.rootpath / "specs/paper/figure2.yaml"
    done = subprocess.run([sys.executable, "-c", STEPS, spec], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 20  # several hundred where the heap is trimmed
