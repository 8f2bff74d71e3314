#!/usr/bin/env python3
"""Shows that the kernel tests can fail: plants one fault at a time in a copy of the templates and expects a
test program to fail on it.

    planted_faults.py TEMPLATES KERNEL_TEST_PROGRAM

The program's name says which faults: those of the family it tests. Each names the file, the text it replaces (which must occur exactly once), and the tests that should
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
PAIRS = "*SparsePairs*"

FORWARD = [
    ("mask edge off by one", "attention/masks.cuh", "clamp_to_int(row_right + query + 1, 0, seqlen_k)",
     "clamp_to_int(row_right + query, 0, seqlen_k)", CAUSAL),
    ("tiles that no row sees run", "attention/masks.cuh", "row_left > row_right || some.begin", "some.begin",
     "SparseCost.*"),
    ("clean tiles one too many", "attention/masks.cuh", "                      all.end / kTileN};",
     "                      ceil_div(all.end, kTileN)};", CAUSAL),
    ("no wait before S, several stages", "attention/forward_sm80.cuh",
     "ptx::cp_async_wait<(kConfig.stages > 1 ? kConfig.stages - 2 : 0)>();",
     "ptx::cp_async_wait<7>();", SCHEDULES),
    ("no wait before P V, one stage", "attention/forward_sm80.cuh",
     "      ptx::cp_async_wait<0>();\n      __syncthreads();\n      if (step > tiles.begin)",
     "      __syncthreads();\n      if (step > tiles.begin)", SCHEDULES),
    ("no barrier before S", "attention/forward_sm80.cuh",
     "stages - 2 : 0)>();\n    __syncthreads();", "stages - 2 : 0)>();", SCHEDULES),
    ("head and batch strides swapped", "attention/tile.cuh",
     "(batch * strides.batch + head * strides.head) * 2 +",
     "(batch * strides.head + head * strides.batch) * 2 +", "*b2_hq8*:*b3_hq5*"),
    ("ragged tail of keys loaded unchecked", "attention/forward_sm80_loads.cuh",
     "load_stage<true>(shared, tiles.key_tile(last), sequence.seqlen_k);",
     "load_stage<false>(shared, tiles.key_tile(last), sequence.seqlen_k);", "*Smoke/Forward.*k131*:*k257*"),
    ("last key dropped", "attention/masks.cuh",
     "KeyInterval row(int) const { return {0, seqlen_k}; }",
     "KeyInterval row(int) const { return {0, seqlen_k - 1}; }", "*Smoke/Forward.*q67_k131*"),
    ("rows beyond seqlen_q stored", "attention/forward_sm80_store.cuh",
     "const bool exists = at.query < sequence.seqlen_q;", "const bool exists = true;", "*Smoke/Forward.*q67_k131*"),
    ("output not rescaled to the new maximum", "attention/forward_sm80.cuh",
     "out[row / 2][n][row % 2 * 2] *= rescale;", "", "*q67_k131*:*OnlineSoftmax*"),
    ("wrong key head of a group", "attention/block_work.cuh", "head / params.group_size}",
     "head % params.group_size}", "*b2_hq12*:*b2_hq6*"),
    ("bits of a pattern in the wrong order", "attention/masks.cuh",
     "words[offset / 32] >> (offset % 32) & 1u", "words[offset / 32] >> (31 - offset % 32) & 1u", PAIRS),
    ("tile seen in part run clean", "attention/masks.cuh", "lists.entries[step].pattern < 0",
     "lists.entries[step].pattern < 1", PAIRS),
    ("pattern of the wrong rows", "attention/masks.cuh", "words[row * kWords + i]",
     "words[row / 2 * kWords + i]", PAIRS),
    ("heads share the first head's list", "attention/masks.cuh", "head * lists.head_stride",
     "0 * head * lists.head_stride", "*SparsePairs*bigbird*"),
    ("batches share the first one's list", "attention/masks.cuh",
     "static_cast<long long>(batch) * lists.batch_stride", "0LL * batch * lists.batch_stride",
     "*SparsePairs*documents*"),
    ("place in the list taken for the key tile", "attention/forward_sm80.cuh",
     "tiles.key_tile(step - 1) * kConfig.tile_n", "(step - 1) * kConfig.tile_n", "*Smoke/Sparse.*"),
]

DQ, DKDV = "attention/backward_dq.cuh", "attention/backward_dkdv.cuh"
GRADIENTS, PREPROCESS = "attention/gradients.cuh", "attention/backward_preprocess.cuh"
BACKWARD_SCHEDULES = "*BackwardSchedules*"
BACKWARD = [
    ("mask edge off by one", "attention/masks.cuh", "clamp_to_int(row_right + query + 1, 0, seqlen_k)",
     "clamp_to_int(row_right + query, 0, seqlen_k)", "*q65_k65_qk128*:*q131_k67_qk80*"),
    ("queries of a key not the mask transposed", DKDV, "MaskExtent{-params.row_right, -params.row_left,",
     "MaskExtent{params.row_left, params.row_right,", "*q65_k65_qk128*"),
    ("mask after the exponential", GRADIENTS, "= -infinity();", "= -80.0f;", "*LseFar*:*NothingSeen*"),
    ("D not subtracted", GRADIENTS, "product -= fragment.of[i].delta;", "", "*q67_k131_qk64*"),
    ("slope of softcap left out", GRADIENTS, "product *= 1.0f - score * score;", "", "*softcap*"),
    ("lse in base e", PREPROCESS, "lse * log2_e()", "lse", "*q67_k131_qk64*"),
    ("lanes of D not all added", PREPROCESS, "ptx::shuffle_xor<kLanes / 2>(value)", "0.0f", "*q67_k131_qk64*"),
    ("statistics beyond seqlen_q not written", PREPROCESS,
     "if (chunk != 0 || row >= params.statistics_rows) return;",
     "if (chunk != 0 || row >= params.seqlen_q) return;", "*q67_k131_qk64*"),
    ("statistics of columns mixed up", DKDV, "{{first, second, first, second}}", "{{first, first, second, second}}",
     "*q67_k131_qk64*"),
    ("one head of a group", DKDV, "first_head + params.group_size}", "first_head + 1}", "*BackwardGroups*:*b2_hq6*"),
    ("wrong key head of a group", DQ, "head / params.group_size}", "head % params.group_size}", "*b2_hq6*"),
    ("dK without the scale", DKDV, "dk, params.scale, params.dk", "dk, 1.0f, params.dk", "*q67_k131_qk64*"),
    ("keys beyond seqlen_k stored", DKDV, "key < params.seqlen_k, head", "true, head", "*q67_k131_qk64*"),
    ("rows beyond seqlen_q stored", DQ, "params.scale, query < params.seqlen_q,", "params.scale, true,", "*q67_k131_qk64*"),
    ("column warps sum the same columns", DKDV, "by_depth_address<BTile>(lane(), 0, 2 * column_warp())",
     "by_depth_address<BTile>(lane(), 0, 0)", "*qk256_v256*"),
    ("P not yet there from the other warp", DKDV, "      __syncthreads();\n    }\n    accumulate<DoutTile>",
     "    }\n    accumulate<DoutTile>", BACKWARD_SCHEDULES + ":*qk256_v256*"),
    ("no wait for a step's tiles", "attention/pipeline.cuh", "ptx::cp_async_wait<(kStages > 1 ? kStages - 2 : 0)>();",
     "ptx::cp_async_wait<7>();", BACKWARD_SCHEDULES),
    ("no barrier before a step", "attention/pipeline.cuh", "- 2 : 0)>();\n    __syncthreads();", "- 2 : 0)>();",
     BACKWARD_SCHEDULES),
    ("slot filled while it is read, one stage", "attention/pipeline.cuh",
     "compute(step, slot);\n      __syncthreads();", "compute(step, slot);",
     BACKWARD_SCHEDULES + ":*BackwardDevices*"),
]
SM90 = "attention/forward_sm90.cuh"
SM90_SCHEDULES = "*ForwardSm90Schedules*"
SM90_PACKED, SM90_PACKED_SCHEDULES = "*ForwardSm90Varlen.*", "*ForwardSm90VarlenSchedules*Rings*"
SM90_NEIGHBOURS, SEQUENCE = "*PackedNeighbours*h100*", "attention/sequence.cuh"
SM90_CAUSAL = "*ForwardSm90*q64_k128*:*ForwardSm90*q131_k131*"

FORWARD_SM90 = [
    ("no wait for Q", SM90, "      ptx::mbarrier_wait(q_full(), 0);\n", "", SM90_SCHEDULES),
    ("no wait for K", SM90, "      ptx::mbarrier_wait(k_full(slot), position.phase);\n", "", SM90_SCHEDULES),
    ("no wait for V", SM90, "      ptx::mbarrier_wait(v_full(slot), position.phase);\n", "", SM90_SCHEDULES),
    ("K loaded over a tile in use", SM90, "      ptx::mbarrier_wait(k_empty(slot), position.phase ^ 1);\n", "",
     SM90_SCHEDULES),
    ("V loaded over a tile in use", SM90, "      ptx::mbarrier_wait(v_empty(slot), position.phase ^ 1);\n", "",
     SM90_SCHEDULES),
    ("empty after one warp", SM90, "kConsumerWarps = 4 * kConfig.consumer_warpgroups", "kConsumerWarps = 1",
     SM90_SCHEDULES),
    ("S read before its products are done", SM90,
     "    ptx::wgmma_wait<0>();\n    ptx::register_fence(scores);",
     "    ptx::wgmma_wait<1>();\n    ptx::register_fence(scores);", SM90_SCHEDULES),
    ("K released before its products are done", SM90,
     "      compute_scores(scores, slot);\n      release(k_empty(slot));",
     "      release(k_empty(slot));\n      compute_scores(scores, slot);", SM90_SCHEDULES),
    ("V released before its products are done", SM90,
     "      accumulate_output(out, weights, slot);\n      release(v_empty(slot));",
     "      release(v_empty(slot));\n      accumulate_output(out, weights, slot);", SM90_SCHEDULES),
    ("one byte too few expected", SM90, "ptx::mbarrier_arrive_expect_tx(full, kColumns * kColumnBytes);",
     "ptx::mbarrier_arrive_expect_tx(full, kColumns * kColumnBytes - 1);", SM90_SCHEDULES),
    ("second column from the first one's place", SM90, "{column * 64, map_row, head, batch}",
     "{column * 0, map_row, head, batch}", SM90_CAUSAL),
    ("consumers share the first rows of Q", SM90, "consumer() * 64 * 128", "consumer() * 0", SM90_CAUSAL),
    ("first masked tiles of a window unmasked", SM90,
     "consume<true>(tiles.begin, tiles.clean_begin", "consume<false>(tiles.begin, tiles.clean_begin", "*window_300_200*"),
    ("clean tiles one too many", "attention/masks.cuh", "                      all.end / kTileN};",
     "                      ceil_div(all.end, kTileN)};", SM90_CAUSAL),
    ("wrong key head of a group", "attention/block_work.cuh", "head / params.group_size}",
     "head % params.group_size}", "*ForwardSm90*b2_hq6*"),
    ("rows beyond seqlen_q stored", SM90, "const bool exists = query < own.seqlen_q;",
     "const bool exists = true;", "*ForwardSm90*q67_k131_qk64*"),
    ("output not rescaled to the new maximum", SM90, "        out[n * 4 + row * 2] *= rescale;\n", "",
     "*ForwardSm90*q193_k391*"),
    ("rows of V beyond a packed sequence not cleared", SM90,
     "        *static_cast<Chunk*>(__cvta_shared_to_generic(address)) = {};\n", "", SM90_NEIGHBOURS),
    ("one row of V beyond a packed sequence kept", SM90, "(sequence.seqlen_k - tile * kConfig.tile_n) * 128",
     "(sequence.seqlen_k + 1 - tile * kConfig.tile_n) * 128", SM90_NEIGHBOURS),
    ("second column of V not cleared", SM90,
     "column < ForwardSm90Config::columns(kConfig.head_dim_v); ++column", "column < 1; ++column", SM90_NEIGHBOURS),
    ("no proxy fence after clearing", SM90, "    ptx::fence_proxy_async_shared();\n", "", SM90_PACKED_SCHEDULES),
    ("no wait for cleared rows", SM90, "        if (runs_over(tile)) ptx::mbarrier_wait(v_cleared(), 0);\n", "",
     SM90_PACKED_SCHEDULES),
    ("one arrival says cleared", SM90, "ptx::mbarrier_init(v_cleared(), kClearingThreads);",
     "ptx::mbarrier_init(v_cleared(), 1);", SM90_PACKED_SCHEDULES),
    ("rows cleared before they come", SM90, "    ptx::mbarrier_wait(v_full(0), 0);\n", "", SM90_PACKED_SCHEDULES),
    ("Q of a packed sequence from the first row on", SM90, "q_full(), sequence.first_q,", "q_full(), 0,", SM90_PACKED),
    ("K of a packed sequence from the first row on", SM90,
     "params.k_map, k_full(slot),\n                                                sequence.first_k, key",
     "params.k_map, k_full(slot), 0, key", SM90_PACKED),
    ("V of a packed sequence from the first row on", SM90,
     "params.v_map, v_full(slot),\n                                               sequence.first_k, key",
     "params.v_map, v_full(slot), 0, key", SM90_PACKED),
    ("rows of a packed neighbour stored", SM90, "const bool exists = query < own.seqlen_q;",
     "const bool exists = query < forward.seqlen_q;", SM90_PACKED),
    ("out of a packed sequence from the first row on", SM90, "work.head * strides.head + own.first_q * strides.row",
     "work.head * strides.head", SM90_PACKED),
    ("lse of packed rows misplaced", SEQUENCE, "* params.total_q + sequence.first_q", "* params.total_q", SM90_PACKED),
    ("lengths not aligned", SEQUENCE, "params.row_left + seqlen_k - seqlen_q,", "params.row_left,", SM90_PACKED),
]

SM80, PACKED = "attention/forward_sm80.cuh", "attention/packed_rows.cuh"
STORE, BLOCK = "attention/forward_sm80_store.cuh", "attention/forward_sm80_block.cuh"
PACKED_TESTS = ":".join("*PackedHeads.*" + name + "*" for name in ("hq10_hkv2_q3", "hq14_hkv2_q17_k131", "hq6_hkv2_q12"))
SERVING = [
    ("keys of a sequence from the first row on", SEQUENCE, "first_k = params.cu_seqlens_k[batch];", "first_k = 0;",
     "Varlen/*"),
    ("lengths not aligned", SEQUENCE, "params.row_left + seqlen_k - seqlen_q,", "params.row_left,", "Varlen/*"),
    ("lse of packed rows misplaced", SEQUENCE, "* params.total_q + sequence.first_q", "* params.total_q", "Varlen/*"),
    ("every key in the first page", "attention/tile.cuh", "page_table[row / kPageSize]", "page_table[0]",
     "Paged/*"),
    ("keys beyond those used", SEQUENCE, "seqlen_k = params.seqused_k[batch];", "seqlen_k = params.seqused_k[batch] + 1;",
     "Paged/*"),
    ("a tile in two parts", BLOCK, "begin + count < tiles.end ? begin + count : tiles.end",
     "begin + count + 1 < tiles.end ? begin + count + 1 : tiles.end", "Splits/*:ServingSplits*"),
    ("sequences share the first one's lists", "attention/masks.cuh",
     "static_cast<long long>(batch) * lists.batch_stride", "0LL * batch * lists.batch_stride", "Sparse/Serving*"),
    ("lists one query tile apart too few", "attention/masks.cuh", "              params.num_query_tiles) {}",
     "              (params.num_query_tiles - 1)) {}", "Sparse/Serving*"),
    ("query of a packed row not divided by the heads", PACKED, "const int query = static_cast<int>("
     "static_cast<unsigned>(row) / static_cast<unsigned>(kHeads));", "const int query = row;", PACKED_TESTS),
    ("every packed row of the first head", PACKED, "row - query * kHeads}", "0}", PACKED_TESTS),
    ("mask of a row not of its query", "attention/masks.cuh", "place_of_row<kPackedHeads>(row).query", "row",
     PACKED_TESTS),
    ("rows of one head only", "attention/masks.cuh", "seqlen_q * kPackedHeads;", "seqlen_q;", PACKED_TESTS),
    ("first head of a block too low", "attention/block_work.cuh", "packs) * kPackedHeads;", "packs);", PACKED_TESTS),
    ("pairs counted by single heads", "attention/block_work.cuh", "params.num_batch_heads / kPackedHeads", "params.num_batch_heads",
     "PackedHeadsOrder*"),
    ("rows of later heads not loaded", "attention/forward_sm80_loads.cuh", "Block::num_rows(sequence));\n    ptx::cp_async_commit();",
     "sequence.seqlen_q);\n    ptx::cp_async_commit();", PACKED_TESTS),
    ("output of every head in the first one's", STORE, "at.head * strides.head + ", "", PACKED_TESTS),
    ("lse of every head in the first one's", STORE, "work.head + at.head, sequence", "work.head, sequence", PACKED_TESTS),
    ("parts of every head in the first one's", STORE, "(first_head + at.head) * params.seqlen_q",
     "first_head * params.seqlen_q", PACKED_TESTS),
    ("packed sequence ends at its queries", SM80, "kConfig.tile_m >= Block::num_rows(sequence)) return;",
     "kConfig.tile_m >= sequence.seqlen_q) return;", PACKED_TESTS),
    ("parts not weighted", "attention/forward_combine.cuh", "out += weight * params.partial_out", "out += params.partial_out",
     "Splits/*:ServingSplits*"),
]
STANDARD_CUH = "attention/standard.cuh"
STANDARD = [
    ("an input written once it was read", STANDARD_CUH, "                 out[0]);\n",
     "                 out[0]);\n    if (block == 0 && thread == 0) *static_cast<unsigned short*>(const_cast<void*>(\n"
     "        static_cast<const void*>(params.q))) = 0;\n", "*q67_k131*"),
    ("mask ignored", STANDARD_CUH, "keys.visible(key + i) ? t : -infinity()", "t", "*MatchesReference*"),
    ("not divided by the sum", STANDARD_CUH, "? inverse_sums[query] : 0.0f", "? 1.0f : 0.0f", "*MatchesReference*"),
    ("last tile of keys left out", STANDARD_CUH, "tile < params.num_key_tiles; ++tile", "tile + 1 < params.num_key_tiles; ++tile",
     "*MatchesReference*"),
    ("maximum not subtracted", STANDARD_CUH, "t * params.scale_log2 - offset", "t * params.scale_log2", "*MatchesReference*"),
]
LINEAR_CUH = "attention/linear_forward.cuh"
LINEAR = [
    ("keys beyond seqlen_k have features", LINEAR_CUH, "if (key >= keys_left) phi.low = 0.0f;", "", "Forward/*"),
    ("padding columns have features", LINEAR_CUH, "q[depth_fragments() - 1][2] = q[depth_fragments() - 1][3] = 0;", "",
     "Forward/*"),
    ("query sees one key too many", LINEAR_CUH, "params.offset + row + 1, 0", "params.offset + row + 2, 0", "Forward/*"),
    ("state of the next chunk", LINEAR_CUH, "sum += *slot;\n      *slot = sum;", "*slot = sum;\n      sum += *slot;", "Forward/*"),
    ("state before not added", LINEAR_CUH, "before != nullptr ? before[index] : 0.0f", "0.0f", "LinearState.*"),
    ("step answers before it adds the key", "attention/linear_step.cuh", "s += key * value;", "", "Step/*"),
    ("state written before the last heads read it", "attention/linear_step.cuh",
     "add_up(params, place, shared, out, normalizer, head, warp, lane);",
     "add_up(params, place, shared, out, normalizer, head, warp, lane);\n"
     "      write_state(params, place, value, first, first_row, end_row);", "LinearState.StepUpdatesItInPlace"),
    ("normaliser left out of a step", "attention/linear_step.cuh", "if constexpr (kConfig.normalized()) sum /= weight;", "",
     "Step/*"),
]
FACTS = [
    ("output not rescaled to the new maximum", SM80, "out[row / 2][n][row % 2 * 2] *= rescale;", "",
     "*FlashIsExact.12*/a100_dense"),
    ("output not rescaled to the new maximum", SM90, "        out[n * 4 + row * 2] *= rescale;\n", "",
     "*FlashIsExact.12*/h100_dense"),
    ("last tile of keys left out", STANDARD_CUH, "tile < params.num_key_tiles; ++tile",
     "tile + 1 < params.num_key_tiles; ++tile", "KernelFacts.13FlashDoesMoreArithmetic"),
    ("keys of another tile than the list's", "attention/masks.cuh", "return lists.entries[step].key_tile;",
     "return step;", "KernelFacts.16*"),
    ("features of a sharper map", "attention/feature.cuh", "x > 0.0f ? x + 1.0f", "x > 0.0f ? x * x + 1.0f",
     "KernelFacts.11*"),
]

FAULTS = {"kernels_facts_test": FACTS, "kernels_serving_test": SERVING, "kernels_standard_attention_test": STANDARD,
          "kernels_linear_test": LINEAR, "kernels_forward_test": FORWARD, "kernels_backward_sm80_test": BACKWARD,
          "kernels_forward_sm90_test": FORWARD_SM90}


def run(program, templates, tests, cache):
    environment = {**os.environ, "TILEWRIGHT_TEMPLATES": str(templates), "TILEWRIGHT_CACHE_DIR": cache}
    outcome = subprocess.run([program, "--gtest_fail_fast", "--gtest_filter=" + tests], env=environment, capture_output=True,
                             text=True, check=False)
    if "Running 0 tests from" in outcome.stdout:
        raise SystemExit(f"planted_faults: no test matches {tests}")
    failed = [line.split("] ")[1].split(",")[0] for line in outcome.stdout.split("\n")
              if line.startswith("[  FAILED  ] ") and "." in line]
    return outcome.returncode != 0, sorted(set(failed))


def main():
    templates, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    faults = FAULTS[pathlib.Path(program).name]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        cache = folder + "/cache"
        every_test = ":".join(sorted({tests for *_, tests in faults}))
        if run(program, templates, every_test, cache)[0]:
            raise SystemExit("planted_faults: the untouched templates fail")
        for name, file, old, new, tests in faults:
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
