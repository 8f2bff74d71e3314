// opcodes.def as tables: every form it describes parses to the modifiers it was spelled from.
#include "emulator/ptx/forms.h"

#include <algorithm>
#include <random>
#include <set>

#include "tests/emulator/ptx_form_text.h"
#include "tests/emulator/ptx_test_support.h"

namespace tilewright::emulator::ptx {
namespace {

struct Spelled {
  Opcode opcode;
  Modifiers modifiers;
  std::string text;
};

TEST(PtxForms, EveryFormParsesToItsModifiers) {
  std::vector<Spelled> spelled;
  std::string body;
  for (int i = 0; i < kNumOpcodes; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    ASSERT_FALSE(forms(opcode).empty());
    for (const Form& form : forms(opcode)) {
      const size_t before = spelled.size();
      enumerate(form, [&](const Modifiers& modifiers, const std::string& mnemonic) {
        for (const bool with_optional : {false, true}) {
          spelled.push_back(
              {opcode, modifiers, spell_instruction(form, modifiers, mnemonic, with_optional)});
          body += spelled.back().text + "\n";
        }
      });
      EXPECT_GT(spelled.size(), before) << to_string(opcode) << ": a form that accepts nothing";
    }
  }
  EXPECT_GT(spelled.size(), 20000u);
  const Module module = parse_or_fail(wrap_in_module("sm_90a", body));
  const Function& k = module.functions.at(module.find_function("k"));
  ASSERT_EQ(k.instructions.size(), spelled.size() + 1);
  for (size_t i = 0; i < spelled.size(); ++i) {
    ASSERT_EQ(k.instructions[i].opcode, spelled[i].opcode) << spelled[i].text;
    ASSERT_EQ(k.instructions[i].modifiers, spelled[i].modifiers) << spelled[i].text;
  }
}

// No two opcodes, and no two modifiers of one opcode, share a spelling.
TEST(PtxForms, SpellingsAreUnambiguous) {
  std::set<std::string> seen;
  for (int i = 0; i < kNumOpcodes; ++i) {
    std::vector<std::pair<std::string, Modifiers>> own;
    for (const Form& form : forms(static_cast<Opcode>(i))) {
      enumerate(form, [&](const Modifiers& modifiers, const std::string& mnemonic) {
        own.emplace_back(mnemonic, modifiers);
      });
    }
    std::ranges::sort(own, {}, &std::pair<std::string, Modifiers>::first);
    for (size_t j = 1; j < own.size(); ++j) {
      if (own[j].first != own[j - 1].first) continue;
      EXPECT_EQ(own[j].second, own[j - 1].second) << own[j].first;
    }
    for (const auto& [mnemonic, modifiers] : own) {
      const auto found = find_opcode(mnemonic);
      ASSERT_TRUE(found.has_value()) << mnemonic;
      ASSERT_EQ(found->opcode, static_cast<Opcode>(i)) << mnemonic;
    }
  }
}

TEST(PtxForms, OrderOfUnorderedModifiersDoesNotMatter) {
  std::mt19937 random(7);
  const std::vector<std::string> texts = {".sync.aligned.m8n8.x4.trans.shared.b16",
                                          ".relaxed.gpu.global.add.noftz.v4.f16"};
  const std::vector<Opcode> opcodes = {Opcode::kLdmatrix, Opcode::kAtom};
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto expected = match_suffixes(opcodes[i], texts[i]);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    std::vector<std::string> parts;
    for (size_t at = 0; at != std::string::npos;) {
      const size_t next = texts[i].find('.', at + 1);
      parts.push_back(texts[i].substr(at, next - at));
      at = next;
    }
    for (int round = 0; round < 50; ++round) {
      std::ranges::shuffle(parts, random);
      std::string text;
      for (const std::string& part : parts) text += part;
      const auto matched = match_suffixes(opcodes[i], text);
      ASSERT_TRUE(matched.ok()) << text;
      EXPECT_EQ(matched->front().modifiers, expected->front().modifiers) << text;
    }
  }
}

// The forms that public Hopper kernels use.
TEST(PtxForms, InventoryOfPublicKernels) {
  const char* const kInventory[] = {
      "abs.ftz.f32",
      "add.f64",
      "add.ftz.f32",
      "add.s64",
      "add.u64",
      "and.b16",
      "and.pred",
      "atom.global.add.f64",
      "atom.global.add.u32",
      "atom.global.cas.b64",
      "bar.arrive",
      "bar.sync",
      "bar.warp.sync",
      "bfi.b32",
      "bra.uni",
      "call.uni",
      "cos.approx.ftz.f32",
      "cp.async.bulk.commit_group",
      "cp.async.bulk.prefetch.tensor.4d.L2.global",
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint",
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group",
      "cp.async.bulk.wait_group.read",
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32",
      "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.bulk_group",
      "cvt.f32.f16",
      "cvt.ftz.f64.f32",
      "cvt.rn.bf16x2.f32",
      "cvt.rn.f16.f32",
      "cvt.rn.f16x2.e4m3x2",
      "cvt.rn.f16x2.f32",
      "cvt.rn.f32.s64",
      "cvt.rn.f64.s32",
      "cvt.rn.ftz.f32.f64",
      "cvt.rn.satfinite.e4m3x2.f32",
      "cvt.s64.s32",
      "cvt.u16.u32",
      "cvt.u64.u16",
      "cvta.param.u64",
      "cvta.to.global.u64",
      "cvta.to.local.u64",
      "cvta.to.shared.u64",
      "div.s32",
      "elect.sync",
      "ex2.approx.ftz.f32",
      "fence.acq_rel.gpu",
      "fence.mbarrier_init.release.cluster",
      "fence.proxy.async.global",
      "fence.proxy.async.shared::cta",
      "fma.rn.f64",
      "fma.rn.ftz.f32",
      "griddepcontrol.wait",
      "ld.global.acquire.gpu.b32",
      "ld.global.nc.u32",
      "ld.global.v2.u16",
      "ld.local.v4.f32",
      "ld.param.s8",
      "ld.param.v4.u8",
      "ld.shared.v2.u64",
      "ld.v2.u64",
      "ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16",
      "lg2.approx.ftz.f32",
      "mad.lo.s32",
      "mapa.shared::cluster.u32",
      "max.ftz.f32",
      "mbarrier.arrive.expect_tx.shared::cta.b64",
      "mbarrier.arrive.shared::cluster.b64",
      "mbarrier.init.shared::cta.b64",
      "mbarrier.try_wait.parity.shared::cta.b64",
      "mov.pred",
      "mul.f16",
      "mul.hi.u32",
      "mul.wide.u16",
      "neg.s64",
      "not.pred",
      "or.b64",
      "popc.b32",
      "prefetch.tensormap",
      "prmt.b32",
      "rcp.approx.ftz.f64",
      "rcp.rn.ftz.f32",
      "red.relaxed.gpu.global.add.s32",
      "selp.f64",
      "selp.u16",
      "setmaxnreg.dec.sync.aligned.u32",
      "setp.eq.f16",
      "setp.equ.ftz.f32",
      "setp.gtu.ftz.f32",
      "setp.leu.f64",
      "setp.ne.s16",
      "setp.num.ftz.f32",
      "shfl.sync.bfly.b32",
      "shfl.sync.up.b32",
      "shl.b64",
      "shr.s32",
      "sin.approx.ftz.f32",
      "sqrt.rn.f64",
      "st.local.v4.u8",
      "st.param.b64",
      "st.shared.v2.u16",
      "stmatrix.sync.aligned.x4.trans.m8n8.shared.b16",
      "sub.f16",
      "vote.sync.ballot.b32",
      "wgmma.commit_group.sync.aligned",
      "wgmma.mma_async.sync.aligned.m64n224k32.f32.e4m3.e4m3",
      "wgmma.wait_group.sync.aligned",
      "xor.pred"};
  for (const std::string_view mnemonic : kInventory) {
    const auto opcode = find_opcode(mnemonic);
    ASSERT_TRUE(opcode.has_value()) << mnemonic;
    const auto matched = match_suffixes(opcode->opcode, mnemonic.substr(opcode->length));
    EXPECT_TRUE(matched.ok()) << matched.error().message;
  }
}

TEST(PtxForms, RefusedCombinations) {
  const char* const kRefused[] = {"mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32",
                                  "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f32",
                                  "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
                                  "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16",
                                  "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8",
                                  "wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16",
                                  "ld.global.v4.u64",
                                  "ld.f16",
                                  "setp.lo.s32",
                                  "setp.lt.b32",
                                  "atom.global.add.s64",
                                  "cvt.f16.f32",
                                  "cvt.rn.f32.f16",
                                  "cvt.rz.satfinite.e4m3x2.f32",
                                  "fma.rn.relu.f32",
                                  "membar.proxy.async",
                                  "fence.proxy.async.shared",
                                  "cvt.sat.s32.s16",
                                  "red.acquire.gpu.add.u32",
                                  "barrier.cluster.wait.relaxed",
                                  "min.sat.s32",
                                  "cp.async.bulk.shared.global.bulk_group"};
  for (const std::string_view mnemonic : kRefused) {
    const auto opcode = find_opcode(mnemonic);
    if (!opcode) continue;
    EXPECT_FALSE(match_suffixes(opcode->opcode, mnemonic.substr(opcode->length)).ok()) << mnemonic;
  }
}

}  // namespace
}  // namespace tilewright::emulator::ptx
