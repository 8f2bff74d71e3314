"""Mutations of one PTX instruction: what may be taken away or bent without the text ceasing to be PTX.

mutations(line, layout) yields (operator, replacement line) for an instruction line; "" drops it. `layout` has
barrier_stride (bytes from one slot's mbarrier to the next one's) and slot_bytes (from one slot to the next).
"""
import re

INSTRUCTION = re.compile(r"^\s*(?P<guard>@!?[\w%$]+\s+)?(?P<text>[a-z][\w.:]*.*;)\s*$")
REGISTER = r"(?:%[\w$]+|[A-Za-z_$][\w$]*|-?\d+|0x[0-9a-fA-F]+)"

# A plain removal of the whole instruction: operator by how the opcode starts.
DROPS = [("mbarrier.arrive", "drop-arrive"), ("mbarrier.init", "drop-init"), ("mbarrier.expect_tx", "drop-arrive"),
         ("bar.sync", "drop-barrier"), ("barrier.sync", "drop-barrier"), ("bar.arrive", "drop-arrive"),
         ("barrier.arrive", "drop-arrive"), ("barrier.cluster.arrive", "drop-arrive"),
         ("barrier.cluster.wait", "drop-wait"), ("bar.warp.sync", "drop-barrier"),
         ("fence.", "drop-fence"), ("membar.", "drop-fence"), ("wgmma.fence", "drop-fence"),
         ("wgmma.commit_group", "drop-commit"), ("wgmma.wait_group", "drop-wait"),
         ("cp.async.bulk.commit_group", "drop-commit"), ("cp.async.bulk.wait_group", "drop-wait"),
         ("cp.async.commit_group", "drop-commit"), ("cp.async.wait", "drop-wait"),
         ("cp.async.bulk.prefetch", None), ("cp.async.bulk.", "drop-copy"), ("cp.reduce.async.bulk.", "drop-copy"),
         ("setmaxnreg", "drop-setmaxnreg")]


def with_changed(text, operand, kind, op, amount):
    """The instruction with one register operand replaced by `operand op amount`, in a scope of its own."""
    bits = int(kind[1:])
    return f"{{ .reg .{kind} mutant; {op}{bits} mutant, {operand}, {amount}; {replace_last(text, operand, 'mutant')} }}"


def replace_last(text, old, new):
    """`old` as a whole word, its last occurrence."""
    found = list(re.finditer(r"(?<![\w%$])" + re.escape(old) + r"(?![\w$])", text))
    at = found[-1]
    return text[:at.start()] + new + text[at.end():]


def shifted_address(text, index, delta):
    """The index-th [base] or [base+offset] of the instruction moved by delta bytes."""
    found = list(re.finditer(r"\[(" + REGISTER + r")(?:\+(-?\d+))?(?=[\],])", text))
    if index >= len(found):
        return None
    at = found[index]
    offset = int(at.group(2) or 0) + delta
    return text[:at.start()] + f"[{at.group(1)}+{offset}" + text[at.end():]


def changed_address(text, op, amount):
    """The first address of the instruction through a changed register, offset included."""
    at = re.search(r"\[(%r\w+)(?:\+(-?\d+))?\]", text)
    if at is None:
        return None
    bits = 64 if at.group(1).startswith("%rd") else 32
    body = text[:at.start()] + "[mutant]" + text[at.end():]
    return (f"{{ .reg .b{bits} mutant; add.s{bits} mutant, {at.group(1)}, {at.group(2) or 0}; "
            f"{op}{bits} mutant, mutant, {amount}; {body} }}")


def plain_mutations(text, layout):
    for start, operator in DROPS:
        if text.startswith(start):
            if operator is not None:
                yield operator, ""
            break
    stride, slot = layout["barrier_stride"], layout["slot_bytes"]
    if re.match(r"mbarrier\.(try|test)_wait", text):
        done = re.search(r"\s(" + REGISTER + r"),\s*\[", text).group(1)
        yield "drop-wait", f"setp.eq.u32 {done}, 0, 0;"
        if ".parity" in text:
            parity = re.search(r"\],\s*(" + REGISTER + r")", text).group(1)
            yield "flip-parity", with_changed(text, parity, "b32", "xor.b", 1)
        yield "wrong-slot", shifted_address(text, 0, stride)
    elif text.startswith("mbarrier.arrive"):
        if "expect_tx" not in text:
            yield "double-arrive", text + " " + text
        yield "wrong-slot", shifted_address(text, 0, stride)
    elif text.startswith("mbarrier.init"):
        count = re.search(r",\s*(" + REGISTER + r");", text).group(1)
        yield "fewer-arrivals", with_changed(text, count, "b32", "add.s", -1)
        yield "more-arrivals", with_changed(text, count, "b32", "add.s", 1)
    elif text.startswith(("bar.sync", "bar.arrive")):
        number = re.match(r"bar\.\w+\s+(" + REGISTER + ")", text).group(1)
        changed = re.sub(r"^(bar\.\w+\s+)" + re.escape(number), r"\1mutant", text)
        yield "wrong-barrier", f"{{ .reg .b32 mutant; add.s32 mutant, {number}, 1; {changed} }}"
    elif re.match(r"(wgmma|cp\.async\.bulk)\.wait_group", text):
        number = int(re.search(r"(\d+);$", text).group(1))
        yield "weaken-wait", re.sub(r"\d+;$", f"{number + 1};", text)
        if text.startswith("cp.") and ".read" not in text:
            yield "read-wait", text.replace("wait_group", "wait_group.read")
    elif re.match(r"cp\.async\.bulk(\.tensor\.\dd)?\.shared", text):
        yield "wrong-slot", shifted_address(text, 0, slot)
        yield "wrong-barrier", shifted_address(text, 2, stride)
        if ".multicast" in text:
            mask = re.search(r"\],\s*(%rs\w+|\d+)", text.split("], [")[-1])
            yield "narrow-multicast", with_changed(text, mask.group(1), "b16", "and.b", 1)
    elif re.match(r"cp\.(reduce\.)?async\.bulk(\.tensor\.\dd)?\.global", text):
        yield "wrong-slot", shifted_address(text, 1, 1024)
    elif text.startswith("wgmma.mma_async"):
        operands = text[text.index("}") + 1:]
        for number, descriptor in enumerate(re.findall(r"%rd\w+", operands)):
            # 128B becomes 32B; 16 elements further; the next slot.
            name = "AB"[number] if operands.count("%rd") > 1 else "B"
            yield f"shift-swizzle-{name}", with_changed(text, descriptor, "b64", "xor.b", "0x8000000000000000")
            yield f"shift-step-{name}", with_changed(text, descriptor, "b64", "add.s", 2)
            yield f"wrong-slot-{name}", with_changed(text, descriptor, "b64", "add.s", slot >> 4)
    elif text.startswith("stmatrix") or re.match(r"st\.(shared\.)?(v\d\.)?[fub]32", text):
        changed = changed_address(text, "xor.b", 16)
        if changed is not None:
            yield "shift-swizzle", changed
    if "expect_tx" in text:
        count = re.search(r",\s*(" + REGISTER + r");", text).group(1)
        yield "shrink-tx", with_changed(text, count, "b32", "add.s", -128)
        yield "grow-tx", with_changed(text, count, "b32", "add.s", 128)


def mutations(line, layout):
    match = INSTRUCTION.match(line)
    if match is None:
        return
    guard = match.group("guard") or ""
    for operator, text in plain_mutations(match.group("text"), layout):
        if text is None:
            continue
        if guard and text.startswith("{"):
            continue  # a guard does not cover a scope
        yield operator, (guard + text if text else "")
