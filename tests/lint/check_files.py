#!/usr/bin/env python3
"""File rules: no file above 800 lines, `asm` only in templates/ptx, no `using namespace` in headers, no
tabs or trailing blanks, every header has #pragma once."""
import pathlib
import re
import sys

FOLDERS = ["include", "core", "templates", "generator", "io_model", "runtime", "autotune", "emulator",
           "reference", "cli", "bench", "examples", "tests", "tools", "cmake"]
SUFFIXES = {".h", ".cpp", ".cuh", ".def", ".py", ".sh", ".cmake", ".txt"}
MAX_LINES = 800
OVER_LONG = {}  # file -> reason


def problems(name, text):
    lines = text.split("\n")
    if len(lines) > MAX_LINES and name not in OVER_LONG:
        yield f"{name}: {len(lines)} lines, more than {MAX_LINES}"
    for number, line in enumerate(lines, 1):
        if line != line.rstrip() or "\t" in line:
            yield f"{name}:{number}: tab or trailing blank"
    if name.endswith((".h", ".cuh")):
        if "#pragma once" not in text and "#ifndef TILEWRIGHT_" not in text:
            yield f"{name}: no #pragma once"
        if re.search(r"^\s*using namespace", text, re.M):
            yield f"{name}: using namespace in a header"
    if name.startswith("templates/") and not name.startswith("templates/ptx/"):
        if re.search(r"\basm\b\s*(volatile)?\s*\(", text):
            yield f"{name}: asm outside templates/ptx"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = []
    if not list(problems("core/a.h", "x\n" * (MAX_LINES + 1))):
        found.append("self-test: an over-long header passed")
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = str(path.relative_to(root))
            if path.suffix in SUFFIXES and not name.startswith("tests/data/"):
                found += problems(name, path.read_text())
    print("\n".join(found) or "files: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
