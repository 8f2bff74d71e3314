#!/usr/bin/env python3
"""Writes wgmma_shared.cuh and wgmma_registers.cuh beside itself: one overload for every N, since the operands
of an asm statement can only be written out.

    generate_wgmma.py [--check]     --check: fails if a file differs from what would be written
"""
import pathlib
import sys
import textwrap

WIDTH = 100
SOURCES = {
    "shared": ("A in shared memory", "<WgmmaInput kInput, Major kMajorA = Major::kK, Major kMajorB = Major::kK>",
               "unsigned long long a", ['"l"(a)'], ['"n"(static_cast<int>(kMajorA))', '"n"(static_cast<int>(kMajorB))']),
    "registers": ("A in registers", "<WgmmaInput kInput, Major kMajorB = Major::kK>",
                  "const unsigned (&a)[4]", [f'"r"(a[{i}])' for i in range(4)], ['"n"(static_cast<int>(kMajorB))']),
}


def wrapped(text, indent):
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False)


def overload(n, template, parameter, a_operands, major_operands):
    """d has N / 2 registers; the operands after it are A, B's descriptor, accumulate, majors, type."""
    count = n // 2
    names = [f"%{count + i}" for i in range(len(a_operands) + 3 + len(major_operands))]
    a = names[0] if len(a_operands) == 1 else "{" + ", ".join(names[:4]) + "}"
    b, accumulate = names[len(a_operands):len(a_operands) + 2]
    majors, types = names[len(a_operands) + 2:-1], names[-1]
    yield f"template {template}"
    yield f"__device__ __forceinline__ void wgmma(float (&d)[{count}], {parameter},"
    yield "                                      unsigned long long b, int accumulate) {"
    yield '  static constexpr char kF16[] = "f16.f16", kBF16[] = "bf16.bf16";'
    yield f'  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, {accumulate}, 0;\\n"'
    yield f'      "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{types} {{"'
    operands = ", ".join(f"%{i}" for i in range(count)) + f"}}, {a}, {b}, p, 1, 1, {', '.join(majors)};\\n}}"
    lines = textwrap.wrap(operands, WIDTH - 10)
    for number, line in enumerate(lines):
        yield f'      "{line}{"" if number + 1 == len(lines) else " "}"'
    yield from wrapped(": " + ", ".join(f'"+f"(d[{i}])' for i in range(count)), "      ")
    inputs = [*a_operands, '"l"(b)', '"r"(accumulate)', *major_operands, '"C"(kInput == WgmmaInput::kF16 ? kF16 : kBF16)']
    yield from wrapped(": " + ", ".join(operand.replace(" ", "\0") for operand in inputs) + '\0:\0"memory");', "      ")
    yield "}"
    yield ""


def header(source):
    where, template, parameter, a_operands, major_operands = SOURCES[source]
    yield f"// wgmma with {where} and B in shared memory, m64nNk16 of fp16 or bf16 for every N:"
    yield "// D = A·B + D, or A·B where `accumulate` is 0 (D is then not read). The size of D, N / 2 registers"
    yield "// a thread, picks the overload. PTX ISA, wgmma.mma_async (sm_90a). How to use it: wgmma.cuh."
    yield "// Written by generate_wgmma.py."
    yield "// clang-format off"
    yield "#pragma once"
    yield ""
    yield '#include "ptx/wgmma.cuh"'
    yield ""
    yield "namespace tilewright::ptx {"
    yield ""
    for n in range(8, 257, 8):
        yield from overload(n, template, parameter, a_operands, major_operands)
    yield "}  // namespace tilewright::ptx"


def main():
    folder = pathlib.Path(__file__).parent
    stale = 0
    for source in SOURCES:
        path = folder / f"wgmma_{source}.cuh"
        text = "\n".join(header(source)).replace("\0", " ") + "\n"
        if "--check" not in sys.argv:
            path.write_text(text)
        elif path.read_text() != text:
            print(f"{path}: differs from what generate_wgmma.py writes")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
