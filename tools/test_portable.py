"""`make test-portable`: the numeric tests again, with other instructions and threads than this CPU would choose.

A tolerance that holds on one CPU only is seen here. Every variable below is obeyed on CPUs of any maker,
as MKL_ENABLE_INSTRUCTIONS is not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

# environment, and which tests run in it
SETTINGS = (
    # the plainest instructions that a build of torch has, one thread: several times as slow, so no whole trainings
    (
        {
            "ATEN_CPU_CAPABILITY": "default",
            "MKL_CBWR": "COMPATIBLE",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "OMP_NUM_THREADS": "1",
        },
        "numeric and not slow",
    ),
    # what most CPUs of the last ten years have, two threads, which do not spin where others want the core
    (
        {
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "OMP_NUM_THREADS": "2",
            "OMP_WAIT_POLICY": "PASSIVE",
        },
        "numeric",
    ),
)
CAPABILITY = "import torch; print(torch.backends.cpu.get_cpu_capability())"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2, help="processes that test at once")
    parser.add_argument("words", nargs="*", help="what else pytest gets, after --")
    options = parser.parse_args()
    plain = has_no_avx2()
    results = []
    failed = False
    for setting, marked in SETTINGS:
        environment = dict(setting)
        if plain and environment["ATEN_CPU_CAPABILITY"] == "avx2":
            del environment["ATEN_CPU_CAPABILITY"]  # torch would obey, and be killed
        shown = " ".join(f"{name}={value}" for name, value in environment.items())
        print(f"--- {shown}: tests that are {marked}", flush=True)
        began = time.monotonic()
        code = run_tests(environment, marked, options.workers, options.words)
        results.append(f"{time.monotonic() - began:5.0f} s  {'passed' if code == 0 else 'FAILED'}  {shown}")
        failed = failed or code != 0
    print("\n".join(results))
    return int(failed)


def has_no_avx2() -> bool:
    """Whether torch itself would choose nothing better than its plainest instructions."""
    environment = dict(os.environ)
    environment.pop("ATEN_CPU_CAPABILITY", None)
    asked = subprocess.run([sys.executable, "-c", CAPABILITY], env=environment, capture_output=True, text=True)
    return not asked.stdout.startswith("AVX")


def run_tests(setting: dict[str, str], marked: str, workers: int, words: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-m", marked, "-n", str(workers), "--dist", "worksteal", *words]
    return subprocess.run(command, env={**os.environ, "PYTHONUTF8": "1", **setting}).returncode


if __name__ == "__main__":
    sys.exit(main())
