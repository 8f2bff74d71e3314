#!/usr/bin/env python3
"""Mechanical mutation of Hopper kernels: one instruction at a time is dropped or bent in a kernel's PTX, and the
mutant runs under every schedule with all observers. Says who notices: an observer, the answer, or nobody.

    mutants.py RUNNER [--kernels GLOB] [--every N] [--schedules LIST] [--survivors FILE] [--report FILE.md]
               [--results FILE.jsonl] [--jobs N]

RUNNER is a program with the commands of runner.cpp: `list`, `ptx NAME`, `run NAME FILE SCHEDULE…`. Survivors
are compared with the rules of --survivors (default: surviving_mutants.txt beside this file); a survivor without
a rule fails, as does a rule that no mutant of a whole run needs. So does a fault of synchronisation that only the
answer shows: there an observer is blind. --every N takes each N-th mutant.
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import mutations

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEDULES = "eager,lazy," + ",".join(f"random:{seed}" for seed in range(1, 9))
# Who noticed, the best first. A mutant's class is the best of its runs.
CLASSES = ["reported", "deadlock", "wrong", "endless", "refused", "emulator fault", "survived"]
TIMEOUT_S = 300
# Operators that take an order away or bend it. The others move data to a wrong place, or none.
SYNCHRONISATION = {"double-arrive", "drop-arrive", "drop-barrier", "drop-cluster-sync", "drop-commit", "drop-fence",
                   "drop-init", "drop-setmaxnreg", "drop-wait", "fewer-arrivals", "flip-parity", "grow-tx",
                   "late-fence", "more-arrivals", "narrow-multicast", "read-wait", "shrink-tx", "weaken-wait",
                   "wrong-barrier"}


def source_line(path, number, cache={}):
    if path not in cache:
        name = path.removeprefix("/tilewright/")
        found = [each for each in (ROOT / name, ROOT / "templates" / name) if each.is_file()]
        cache[path] = found[0].read_text().split("\n") if found else []
    return cache[path][number - 1].strip() if 0 < number <= len(cache[path]) else ""


def sites(ptx, layout):
    """(line index, operator, {line index: new line}, where, place): `where` is the source line that calls the
    wrapper, `place` its file and number."""
    lines = ptx.split("\n")
    files = {number: path for number, path in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', ptx, re.M)}
    where, place = "", ""
    for index, line in enumerate(lines):
        location = re.match(r"\s*\.loc\s+(\d+) (\d+) \d+(?:.*inlined_at (\d+) (\d+) \d+)?", line)
        if location:
            file, number = location.group(3) or location.group(1), int(location.group(4) or location.group(2))
            path = files.get(file, "")
            where, place = source_line(path, number), f"{path.rsplit('/', 1)[-1]}:{number}"
            where = where or "(entry)"
            continue
        for operator, replacement in mutations.mutations(line, layout):
            yield index, operator, {index: replacement}, where, place
        if re.match(r"\s*fence\.proxy\.async", line):
            after = next_in_block(lines, index, r"\s*bar(rier)?\.(sync|arrive)")
            if after:
                yield index, "late-fence", {index: "", after: lines[after] + " " + line.strip()}, where, place
        if re.match(r"\s*barrier\.cluster\.arrive", line):
            after = next_in_block(lines, index, r"\s*barrier\.cluster\.wait")
            if after:
                yield index, "drop-cluster-sync", {index: "", after: ""}, where, place


def next_in_block(lines, index, pattern):
    """The next line of this pattern, if nothing branches in between."""
    for after in range(index + 1, min(index + 40, len(lines))):
        if re.match(r"\s*(@\S+\s+)?bra|^\S+:", lines[after]):
            return None
        if re.match(pattern, lines[after]):
            return after
    return None


def mutated(lines, changes):
    return "\n".join(changes.get(index, line) for index, line in enumerate(lines))


def run(runner, kernel, text, schedules, folder, number):
    path = pathlib.Path(folder) / f"{kernel}.{number}.ptx"
    path.write_text(text)
    try:
        outcome = subprocess.run([runner, "run", kernel, str(path), *schedules], capture_output=True, text=True,
                                 timeout=TIMEOUT_S, check=False)
        runs = [line.split("\t", 2) for line in outcome.stdout.split("\n") if line.count("\t") >= 2]
        if outcome.returncode != 0 or len(runs) != len(schedules):
            runs.append(["", "emulator fault", f"exit {outcome.returncode}: {outcome.stderr[-300:]}"])
    except subprocess.TimeoutExpired:
        runs = [["", "emulator fault", f"still running after {TIMEOUT_S} s"]]
    path.unlink()
    return runs


def run_until_reported(runner, kernel, text, schedules, folder, number):
    """All schedules, unless an observer reports under one of the first two: no other run can better that."""
    runs = run(runner, kernel, text, schedules[:2], folder, number)
    if schedules[2:] and classify(runs) != "reported":
        runs += run(runner, kernel, text, schedules[2:], folder, number)
    return runs


def classify(runs):
    verdicts = ["survived" if verdict == "right" else verdict for _, verdict, _ in runs]
    if "emulator fault" in verdicts:
        return "emulator fault"
    return min(verdicts, key=CLASSES.index)


def is_executed(runner, kernel, lines, index, folder, number):
    guard = re.match(r"\s*(@\S+\s+)?", lines[index]).group(1) or ""
    changed = list(lines)
    changed[index] = f"{guard}trap; " + lines[index]
    return classify(run(runner, kernel, "\n".join(changed), ["eager"], folder, number)) == "reported"


def test_kernel(runner, kernel, layout, options, folder):
    ptx = subprocess.run([runner, "ptx", kernel], capture_output=True, text=True, check=True).stdout
    lines = ptx.split("\n")
    found = list(sites(ptx, layout))[::options.every]
    schedules = options.schedules.split(",")
    untouched = run(runner, kernel, ptx, schedules, folder, "untouched")
    if classify(untouched) != "survived":
        raise SystemExit(f"mutants: the untouched {kernel} fails: {untouched}")

    def judge(numbered):
        number, (index, operator, changes, where, place) = numbered
        runs = run_until_reported(runner, kernel, mutated(lines, changes), schedules, folder, number)
        verdict = classify(runs)
        if verdict == "survived" and not is_executed(runner, kernel, lines, index, folder, number):
            verdict = "not executed"
        detail = next((each[2] for each in runs if each[1] == verdict), "")
        return {"kernel": kernel, "operator": operator, "class": verdict, "where": where, "place": place,
                "ptx_line": index + 1, "instruction": lines[index].strip()[:160],
                "caught_by": [each[0] for each in runs if each[1] not in ("right", "")],
                "detail": detail[:200]}

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(judge, enumerate(found)))


def read_rules(path):
    """kernel glob | operator glob | part of the source line | reason"""
    rules = []
    for line in path.read_text().split("\n") if path.is_file() else []:
        if line.strip() and not line.startswith("#"):
            kernel, operator, where, reason = (part.strip() for part in line.split("|", 3))
            rules.append({"kernel": kernel, "operator": operator, "where": where, "reason": reason, "used": []})
    return rules


def is_synchronisation(mutant):
    return (mutant["operator"] in SYNCHRONISATION or
            mutant["operator"] == "wrong-slot" and "mbarrier" in mutant["instruction"].split("[")[0])


def needs_reason(mutant):
    return (mutant["class"] in ("survived", "refused", "emulator fault", "endless") or
            mutant["class"] == "wrong" and is_synchronisation(mutant))


def explain(results, rules):
    for each in results:
        if not needs_reason(each):
            continue
        for rule in rules:
            if (fnmatch.fnmatch(each["kernel"], rule["kernel"]) and
                    fnmatch.fnmatch(each["operator"], rule["operator"]) and rule["where"] in each["where"]):
                rule["used"].append(each)
                each["reason"] = rule["reason"]
                break


def write_report(path, results, rules, command):
    classes = [each for each in [*CLASSES, "not executed"] if any(r["class"] == each for r in results)]
    out = ["# Mutants of the Hopper kernels on the emulator", "",
           f"Made by `{command}`. Each mutant breaks one instruction in one way (`tests/hopper_kernels/mutations.py`) "
           "and runs under every schedule of the tool with observers `full`, or under the first two where an observer "
           "reports there. Its class is the first of `reported` by an observer, `deadlock` reported and `wrong` "
           "answer that any run gives; else it `survived`.", ""]
    for title, key in (("By kernel", "kernel"), ("By operator", "operator")):
        out += [f"## {title}", "", f"| {key} | mutants | " + " | ".join(classes) + " |",
                "|---|" + "---:|" * (len(classes) + 1)]
        groups = collections.defaultdict(collections.Counter)
        for each in results:
            groups[each[key]][each["class"]] += 1
        for name, counts in sorted(groups.items()):
            out.append(f"| {name} | {counts.total()} | " + " | ".join(str(counts[c] or "") for c in classes) + " |")
        total = collections.Counter(each["class"] for each in results)
        out += [f"| all | {len(results)} | " + " | ".join(str(total[c]) for c in classes) + " |", ""]
    out += ["## Survivors, each explained", "",
            "What a rule of `tests/hopper_kernels/surviving_mutants.txt` explains, with the PTX lines.", ""]
    for rule in rules:
        if rule["used"]:
            out.append(f"- {rule['kernel']}, {rule['operator']}, `{rule['where']}` ({len(rule['used'])}): "
                       f"{rule['reason']}")
            kernels = collections.defaultdict(list)
            for each in rule["used"]:
                kernels[each["kernel"]].append(f"{each['ptx_line']}")
            out += [f"  - {kernel}: {', '.join(lines)}" for kernel, lines in sorted(kernels.items())]
    blind = [each for each in results if each["class"] == "wrong" and is_synchronisation(each)]
    out += ["", f"Faults of synchronisation that only the answer shows: {len(blind) or 'none'}."]
    out += [f"- {each['kernel']}, {each['operator']}, {each['place']}, PTX line {each['ptx_line']}: "
            f"{each.get('reason', 'unexplained')}" for each in blind]
    out += ["", "`not executed`: the instruction is never reached on this problem (a trap in its place is not met).", ""]
    path.write_text("\n".join(out))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("runner")
    parser.add_argument("--kernels", default="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--schedules", default=SCHEDULES)
    parser.add_argument("--survivors", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent / "surviving_mutants.txt")
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()

    listed = subprocess.run([options.runner, "list"], capture_output=True, text=True, check=True).stdout
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for line in listed.strip().split("\n"):
            kernel, barrier_stride, slot_bytes = line.split("\t")
            if fnmatch.fnmatch(kernel, options.kernels):
                layout = {"barrier_stride": int(barrier_stride), "slot_bytes": int(slot_bytes)}
                tested = test_kernel(options.runner, kernel, layout, options, folder)
                print(kernel, dict(collections.Counter(each["class"] for each in tested)), flush=True)
                results += tested
    rules = read_rules(options.survivors)
    explain(results, rules)
    if options.results:
        options.results.write_text("".join(json.dumps(each) + "\n" for each in results))
    if options.report:
        write_report(options.report, results, rules, " ".join(["tests/hopper_kernels/mutants.py", *sys.argv[1:]]))
    bad = [each for each in results if needs_reason(each) and "reason" not in each]
    for each in bad:
        print(f"UNEXPLAINED {each['class']}: {each['kernel']} {each['operator']} {each['place']} `{each['where']}` "
              f"(PTX line {each['ptx_line']}: {each['instruction'][:80]}) {each['detail'][:120]}")
    whole = options.every == 1 and options.kernels == "*"
    stale = [rule for rule in rules if whole and not rule["used"]]
    for rule in stale:
        print(f"STALE rule: {rule['kernel']} | {rule['operator']} | {rule['where']}")
    return 1 if bad or stale or not results else 0


if __name__ == "__main__":
    sys.exit(main())
