#include "emulator/machine/register_watch.h"

#include "core/check.h"
#include "emulator/machine/block.h"

namespace tilewright::emulator {
namespace {

// A warp beyond the last whole warpgroup executes no wgmma.
WarpgroupMember* member_of(Warp& warp) {
  std::vector<Warpgroup>& groups = warp.block->warpgroups;
  return warp.index / 4 < groups.size() ? &groups[warp.index / 4].members[warp.index % 4] : nullptr;
}

std::vector<RegisterWatch::State>& registers_of(Warp& warp, WarpgroupMember& member) {
  std::vector<RegisterWatch::State>& states = member.watch.registers;
  states.resize(warp.launch->kernel->watched_registers.size());
  return states;
}

std::string name_of(const Warp& warp, uint32_t watched) {
  return warp.frame->function->source->register_name(
      warp.launch->kernel->watched_registers[watched]);
}

// Of an instruction that this warp has executed.
std::string executed_by(const Warp& warp, const Instruction& at) {
  const Dim3& size = warp.launch->request->block;
  const uint32_t thread = warp.index * 32;
  return fmt::format("thread ({}, {}, {}) at {}", thread % size.x, thread / size.x % size.y,
                     thread / size.x / size.y, describe_instruction(warp, *warp.frame, at));
}

}  // namespace

const Instruction* note_touched_registers(Warp& warp, const Instruction* i) {
  if (!warp.ordered) return i + 1;
  WarpgroupMember* member = member_of(warp);
  if (member == nullptr) return i + 1;
  std::vector<RegisterWatch::State>& states = registers_of(warp, *member);
  for (const TouchedRegister& touched : warp.launch->kernel->touched_registers[i->extra]) {
    RegisterWatch::State& state = states[touched.watched];
    state.touched_at = touched.source + 1;
    if (state.product <= member->waited) continue;
    const Warpgroup& group = warp.block->warpgroups[warp.index / 4];
    Instruction at = *i;
    at.source = touched.source;
    fault(warp, &at,
          {.kind = FaultKind::kRegisters,
           .message = fmt::format("{} belongs to a wgmma that no wgmma.wait_group has covered",
                                  name_of(warp, touched.watched)),
           .other_party =
               "issued by " +
               executed_by(warp, *group.products[state.product - 1 - group.first]->instruction)});
    warp.pc = i;
    return nullptr;
  }
  return i + 1;
}

void note_register_fence(Warp& warp) {
  if (!warp.ordered) return;
  for (RegisterWatch::State& state : registers_of(warp, *member_of(warp))) {
    state.touched_at = 0;
    state.form = nullptr;
  }
}

bool note_product_registers(Warp& warp, const Instruction* i, const WarpgroupForm& form,
                            uint64_t number) {
  if (!warp.ordered) return true;
  std::vector<RegisterWatch::State>& states = registers_of(warp, *member_of(warp));
  const auto is_fenced = [&](uint32_t watched) {
    const RegisterWatch::State& state = states[watched];
    if (state.touched_at == 0) return true;
    Instruction touching = *i;
    touching.source = state.touched_at - 1;
    fault(warp, i,
          {.kind = FaultKind::kRegisters,
           .message = fmt::format("{} was accessed with no wgmma.fence between it and the wgmma",
                                  name_of(warp, watched)),
           .other_party = "accessed by " + executed_by(warp, touching)});
    return false;
  };
  for (const uint32_t watched : form.watched_a) {
    if (!is_fenced(watched)) return false;
    states[watched].product = number + 1;
  }
  for (const uint32_t watched : form.watched_d) {
    if (!is_fenced(watched)) return false;
    RegisterWatch::State& state = states[watched];
    if (state.form != nullptr &&
        (state.form->form.n != form.form.n || state.form->form.d != form.form.d)) {
      fault(warp, i,
            {.kind = FaultKind::kRegisters,
             .message = fmt::format(
                 "{} accumulates a wgmma of another shape with no wgmma.fence in between",
                 name_of(warp, watched))});
      return false;
    }
    state.form = &form;
    state.product = number + 1;
  }
  return true;
}

}  // namespace tilewright::emulator
