#!/usr/bin/env python3
"""Every C++ and CUDA file is as clang-format 14 leaves it."""
import pathlib
import subprocess
import sys

FOLDERS = ["include", "core", "templates", "generator", "io_model", "runtime", "autotune", "emulator",
           "reference", "cli", "bench", "examples", "tests"]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    files = [str(path) for folder in FOLDERS for path in sorted((root / folder).rglob("*"))
             if path.suffix in (".h", ".cpp", ".cuh")]
    outcome = subprocess.run(["clang-format-14", "--dry-run", "--Werror", *files],
                             capture_output=True, text=True)
    bad = sorted({line.split(":")[0] for line in outcome.stderr.split("\n") if "error:" in line})
    print("\n".join(f"{name}: run clang-format-14 -i" for name in bad) or
          outcome.stderr.strip() or f"format: {len(files)} files ok")
    return outcome.returncode


if __name__ == "__main__":
    sys.exit(main())
