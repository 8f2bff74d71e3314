#!/usr/bin/env python3
"""Shows that the kernel tests can fail: plants one fault at a time in a copy of the templates and expects a
test program to fail on it.

    planted_faults.py TEMPLATES KERNEL_TEST_PROGRAM

Each fault names the file, the text it replaces (which must occur exactly once), and the tests that should
notice. Prints a table; exits 1 if a fault survives or the untouched templates fail.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CAUSAL = "*q193_k191_qk64_v64_fp16_causal:*q257_k129*"
SCHEDULES = "*ForwardSchedules*"

FAULTS = [
    ("mask edge off by one", "attention/masks.cuh", "clamp_to_int(row_right + query + 1, 0, seqlen_k)",
     "clamp_to_int(row_right + query, 0, seqlen_k)", CAUSAL),
    ("clean tiles one too many", "attention/masks.cuh", "                      all.end / kTileN};",
     "                      ceil_div(all.end, kTileN)};", CAUSAL),
    ("no wait before S, several stages", "attention/forward_sm80.cuh",
     "ptx::cp_async_wait<(kConfig.stages > 1 ? kConfig.stages - 2 : 0)>();",
     "ptx::cp_async_wait<7>();", SCHEDULES),
    ("no wait before P V, one stage", "attention/forward_sm80.cuh",
     "      ptx::cp_async_wait<0>();\n      __syncthreads();\n      if (tile > tiles.begin)",
     "      __syncthreads();\n      if (tile > tiles.begin)", SCHEDULES),
    ("no barrier before S", "attention/forward_sm80.cuh",
     "stages - 2 : 0)>();\n    __syncthreads();", "stages - 2 : 0)>();", SCHEDULES),
    ("head and batch strides swapped", "attention/tile.cuh",
     "(batch * strides.batch + head * strides.head) * 2 + row * row_bytes",
     "(batch * strides.head + head * strides.batch) * 2 + row * row_bytes", "*b2_hq8*:*b3_hq5*"),
    ("ragged tail of keys loaded unchecked", "attention/forward_sm80.cuh",
     "load_stage<true>(sources, shared, last, params.seqlen_k);",
     "load_stage<false>(sources, shared, last, params.seqlen_k);", "*Smoke/Forward.*k131*:*k257*"),
    ("last key dropped", "attention/masks.cuh",
     "KeyInterval row(int) const { return {0, seqlen_k}; }",
     "KeyInterval row(int) const { return {0, seqlen_k - 1}; }", "*Smoke/Forward.*q67_k131*"),
    ("rows beyond seqlen_q stored", "attention/forward_sm80.cuh",
     "if (query >= params.seqlen_q) continue;", "", "*Smoke/Forward.*q67_k131*"),
    ("output not rescaled to the new maximum", "attention/forward_sm80.cuh",
     "out[row / 2][n][row % 2 * 2] *= rescale;", "", "*q67_k131*:OnlineSoftmax*"),
    ("wrong key head of a group", "attention/forward_sm80.cuh", "head / params.group_size}",
     "head % params.group_size}", "*b2_hq12*:*b2_hq6*"),
]


def run(program, templates, tests, cache):
    environment = {**os.environ, "TILEWRIGHT_TEMPLATES": str(templates), "TILEWRIGHT_CACHE_DIR": cache}
    outcome = subprocess.run([program, "--gtest_filter=" + tests], env=environment, capture_output=True,
                             text=True, check=False)
    if "0 tests from" in outcome.stdout:
        raise SystemExit(f"planted_faults: no test matches {tests}")
    failed = [line.split("] ")[1].split(",")[0] for line in outcome.stdout.split("\n")
              if line.startswith("[  FAILED  ]") and "where" in line or line.startswith("[  FAILED  ] Online")]
    return outcome.returncode != 0, sorted(set(failed))


def main():
    templates, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        cache = folder + "/cache"
        every_test = ":".join(sorted({tests for *_, tests in FAULTS}))
        if run(program, templates, every_test, cache)[0]:
            raise SystemExit("planted_faults: the untouched templates fail")
        for name, file, old, new, tests in FAULTS:
            copy = pathlib.Path(folder) / "templates"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(templates, copy)
            text = (copy / file).read_text()
            if text.count(old) != 1:
                raise SystemExit(f"planted_faults: {name}: its text occurs {text.count(old)} times in {file}")
            (copy / file).write_text(text.replace(old, new))
            caught, failed = run(program, copy, tests, cache)
            survivors += not caught
            print(f"{'caught' if caught else 'SURVIVED':9} {name:42} {failed[0] if failed else ''}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
