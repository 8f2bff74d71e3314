"""The stand-alone library exports the driver's names and the extension's, and nothing else."""

import pathlib
import re
import subprocess
import sys

library = sys.argv[1]
driver = pathlib.Path(__file__).resolve().parents[2] / "emulator" / "driver"
expected = set()
for name in ("symbols.def", "unsupported.def", "extension.def"):
    expected |= set(re.findall(r"^TW_\w+\((\w+)", (driver / name).read_text(), flags=re.M))

dynamic = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True,
                         text=True).stdout
exported = {line.split()[-1] for line in dynamic.splitlines()}
missing, extra = sorted(expected - exported), sorted(exported - expected)
if missing or extra:
    sys.exit(f"missing: {missing}\nexported besides: {extra}")
header = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                        text=True).stdout
if "soname: [libcuda.so.1]" not in header:
    sys.exit("the SONAME is not libcuda.so.1")
