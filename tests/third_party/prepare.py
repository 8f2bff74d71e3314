#!/usr/bin/env python3
"""Writes what the hosts include and the checkouts do not hold: tutorials without their main, and
copies of kernels with the synchronisation that the originals lack (README.md says which).

    prepare.py CHECKOUTS OUTPUT
"""
import pathlib
import re
import sys

CLUSTER_BARRIER = r'asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;\n" ::: "memory");'
PROXY_FENCE = 'asm volatile("fence.proxy.async.shared::cta;\\n" ::: "memory");'


def replaced(text, old, new, count):
    found = len(re.findall(old, text))
    if found != count:
        sys.exit(f"prepare.py: {found} times {old!r} instead of {count}: another version?")
    return re.sub(old, lambda match: match.expand(new.replace("\\n", "\\\\n")), text)


def at_kernel_end(text, statement):
    head, kernel = text.split("__global__", 1)
    body, tail = kernel.split("\n}\n", 1)
    return f"{head}__global__{body}\n    {statement}\n}}\n{tail}"


def repaired_matmul(text, number):
    # A block must outlive the arrivals of its neighbour.
    text = at_kernel_end(text, CLUSTER_BARRIER)
    if number < 10:
        return text
    # The tile in shared memory must outlive the copy that reads it, be seen by the async proxy, and
    # not be overwritten before the copying thread has waited.
    text = at_kernel_end(text, 'asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");')
    text = replaced(text, r'(asm volatile\("bar\.sync)', PROXY_FENCE + r" \1", 1)
    return replaced(text, r'(            asm volatile\("cp\.async\.bulk\.wait_group 0;"\);)',
                    r'\1 asm volatile("bar.sync 6, 256;" ::: "memory");', 1)


def repaired_tutorial(text):
    # Every thread's copies must have landed, for all proxies, before any warp multiplies, and all
    # warps must have multiplied before a stage is overwritten.
    text = replaced(text, r"cp_async_wait<0>\(\);",
                    f"cp_async_wait<0>(); {PROXY_FENCE} __syncthreads();", 1)
    return replaced(text, r"(k_pipe_read = \(k_pipe_read == K_PIPE_MAX\).*)", r"\1 __syncthreads();", 1)


def main():
    checkouts, output = (pathlib.Path(argument) for argument in sys.argv[1:3])
    tutorials = checkouts / "cutlass/examples/cute/tutorial/hopper"
    for name in ["wgmma_sm90", "wgmma_tma_sm90"]:
        text = (tutorials / f"{name}.cu").read_text().split("\nint main(")[0] + "\n"
        (output / f"{name}.h").write_text(text)
        if name == "wgmma_sm90":
            (output / f"{name}_repaired.h").write_text(repaired_tutorial(text))
    kernels = output / "repaired/examples/matmul"
    kernels.mkdir(parents=True, exist_ok=True)
    for path in sorted((checkouts / "fast.cu/examples/matmul").glob("matmul_*.cuh")):
        number = int(path.stem.split("_")[1])
        text = path.read_text()
        (kernels / path.name).write_text(repaired_matmul(text, number) if number >= 8 else text)


if __name__ == "__main__":
    main()
