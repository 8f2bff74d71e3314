// mbarrier: random legal sequences over every form, own barriers and a peer's, against a model of
// four counters; what every arrival returns and what every wait says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/emulator/machine_support.h"
#include "tests/emulator/slow_reference/assembly.h"
#include "tests/emulator/slow_reference/tuples.h"
#include "tests/emulator/slow_reference/values.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Flag;
using ptx::Opcode;
using ptx::StateSpace;

struct Model {
  int phase = 0;
  int expected = 0;
  int pending = 0;
  int tx = 0;

  void init(int count) { *this = {0, count, count, 0}; }
  void check() {
    if (pending != 0 || tx != 0) return;
    ++phase;
    pending = expected;
  }
  void arrive(int count) {
    pending -= count;
    check();
  }
};

constexpr int kPeerCount = 5;  // of the peer's barriers
constexpr int kPrograms = 60;  // barriers of a launch

class Script {
 public:
  explicit Script(uint64_t seed) : random_(seed) {
    for (const Tuple& t : tuples_of(Group::kMbarrier)) by_opcode_[t.opcode()].push_back(t);
  }

  // A sequence on barrier `number` in which `target` occurs.
  void add(const Tuple& target, int number) {
    number_ = number;
    const int count = 2 + static_cast<int>(random_() % 6);
    own_.init(count);
    peer_.init(kPeerCount);
    has_token_ = false;
    const Tuple& init =
        target.opcode() == Opcode::kMbarrierInit ? target : any(Opcode::kMbarrierInit);
    text_ += fmt::format("{} {}, {};\n", init.mnemonic, address(init, false), count);
    observe(init);
    const int before = static_cast<int>(random_() % 4);
    for (int i = 0; i < before; ++i) step();
    for (int tries = 0; tries < 20; ++tries) {  // until the target is legal
      if (run(target)) break;
      if (tries % 4 == 3) {
        complete_phase();
      } else if (tries % 4 == 2) {
        invalidate(target);
      } else {
        step();
      }
    }
    step();
    if (target.opcode() == Opcode::kMbarrierInval || random_() % 4 == 0) invalidate(target);
    peers_.push_back(peer_);
  }

  void run_launch(Ledger& ledger) {
    const int programs = static_cast<int>(peers_.size());
    std::string watch;  // what the peer sees of its own barriers
    for (int i = 0; i < programs; ++i) {
      for (const int parity : {0, 1}) {
        watch += fmt::format(
            "mbarrier.test_wait.parity.shared.b64 %p2, [%bars+{}], {};\nselp.u64 %d9, 1, 0, %p2;\n"
            "st.global.u64 [%out+{}], %d9;\n",
            8 * i, parity, 8 * (3 * i + parity));
      }
      if (peers_[static_cast<size_t>(i)].pending == 0) continue;
      watch += fmt::format(
          "mbarrier.arrive.shared.b64 %d9, [%bars+{}];\nmbarrier.pending_count.b64 %r9, %d9;\n"
          "cvt.u64.u32 %d9, %r9;\nst.global.u64 [%out+{}], %d9;\n",
          8 * i, 8 * (3 * i + 2));
    }
    std::string peer_inits;
    for (int i = 0; i < programs; ++i) {
      peer_inits += fmt::format("mbarrier.init.shared.b64 [%bars+{}], {};\n", 8 * i, kPeerCount);
    }
    const std::string body =
        ".visible .entry k(.param .u64 out, .param .u64 peer_out)\n{\n" +
        register_declarations(16) +
        ".reg .b32 %bars, %peer_bars, %own_bars, %rank, %other;\n.reg .b64 %generic, %out;\n"
        ".shared .align 8 .b8 bars[512];\nmov.u32 %bars, bars;\nmov.u32 %rank, %cluster_ctarank;\n"
        "xor.b32 %other, %rank, 1;\nmapa.shared::cluster.u32 %peer_bars, %bars, %other;\n"
        "mapa.shared::cluster.u32 %own_bars, %bars, %rank;\ncvt.u64.u32 %d0, %bars;\n"
        "cvta.shared.u64 %generic, %d0;\nld.param.u64 %out, [out];\n"
        "setp.eq.u32 %p0, %rank, 0;\n@%p0 bra READY;\n" +
        peer_inits +
        "fence.mbarrier_init.release.cluster;\nREADY:\n"
        "barrier.cluster.arrive;\nbarrier.cluster.wait;\n@!%p0 bra RAN;\n" +
        text_ +
        "RAN:\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n@%p0 bra SEEN;\n"
        "ld.param.u64 %out, [peer_out];\n" +
        watch + "SEEN:\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nret;\n}\n";
    test::Machine machine("sm_90a");
    ASSERT_NE(machine.load(body), nullptr);
    const DeviceAddress out = machine.upload(std::vector<uint64_t>(expected_.size(), 99));
    const DeviceAddress peer_out =
        machine.upload(std::vector<uint64_t>(static_cast<size_t>(programs) * 3, 99));
    LaunchSettings settings;
    settings.observers = ObserverLevel::kMemory;
    const LaunchOutcome outcome =
        machine.run("k", {2}, {1}, test::Arguments().add(out).add(peer_out), settings, 0, {2});
    ASSERT_FALSE(outcome.fault) << test::describe(outcome);
    const auto actual = machine.download<uint64_t>(out, expected_.size());
    for (size_t i = 0; i < expected_.size(); ++i) {
      EXPECT_EQ(actual[i], expected_[i].value) << expected_[i].what << "\n"
                                               << expected_[i].tuple.mnemonic;
      ledger.compared(expected_[i].tuple);
    }
    const auto seen = machine.download<uint64_t>(peer_out, static_cast<size_t>(programs) * 3);
    for (size_t i = 0; i < peers_.size(); ++i) {
      EXPECT_EQ(seen[3 * i], (peers_[i].phase & 1) != 0 ? 1u : 0u) << "peer's barrier " << i;
      EXPECT_EQ(seen[3 * i + 1], (peers_[i].phase & 1) != 1 ? 1u : 0u) << "peer's barrier " << i;
      if (peers_[i].pending == 0) continue;
      EXPECT_EQ(seen[3 * i + 2], static_cast<uint64_t>(peers_[i].pending))
          << "peer's barrier " << i;
    }
  }

 private:
  struct Expectation {
    Tuple tuple;
    std::string what;
    uint64_t value;
  };

  int roll(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  const Tuple& any(Opcode opcode) {
    const auto& list = by_opcode_.at(opcode);
    return list[random_() % list.size()];
  }
  std::string address(const Tuple& t, bool remote) const {
    const char* base = "%bars";
    if (t.modifiers.space == StateSpace::kGeneric) base = "%generic";
    if (t.modifiers.space == StateSpace::kSharedCluster) base = remote ? "%peer_bars" : "%own_bars";
    return fmt::format("[{}+{}]", base, 8 * number_);
  }
  // %d9 is to hold `value`.
  void expect(const Tuple& t, const std::string& what, uint64_t value) {
    text_ += fmt::format("st.global.u64 [%out+{}], %d9;\n", expected_.size() * 8);
    expected_.push_back({t, what, value});
  }
  // Which phase the barrier is in, by both parities; after every operation.
  void observe(const Tuple& cause) {
    for (const int parity : {0, 1}) {
      text_ += fmt::format(
          "mbarrier.test_wait.parity.shared.b64 %p2, [%bars+{}], {};\nselp.u64 %d9, 1, 0, %p2;\n",
          8 * number_, parity);
      expect(cause, fmt::format("parity {} in phase {}", parity, own_.phase),
             (own_.phase & 1) != parity ? 1 : 0);
    }
  }

  void step() {
    static constexpr Opcode kSteps[] = {
        Opcode::kMbarrierArrive,   Opcode::kMbarrierExpectTx,     Opcode::kMbarrierCompleteTx,
        Opcode::kMbarrierTestWait, Opcode::kMbarrierArrive,       Opcode::kMbarrierArriveDrop,
        Opcode::kMbarrierTryWait,  Opcode::kCpAsyncMbarrierArrive};
    for (int tries = 0; tries < 8; ++tries) {
      if (run(any(kSteps[random_() % 8]))) return;
    }
  }

  // An arrival that leaves a token, then whatever its phase still lacks.
  void complete_phase() {
    static constexpr const char* kArrive = "mbarrier.arrive.shared.b64";
    for (const Tuple& t : by_opcode_.at(Opcode::kMbarrierArrive)) {
      if (t.mnemonic == kArrive && t.form_index == 0 && own_.pending > 0) arrive(t, own_, false);
    }
    if (token_phase_ != own_.phase) return;
    if (own_.tx > 0) {
      text_ += fmt::format("mbarrier.complete_tx.shared::cta.b64 [%bars+{}], {};\n", 8 * number_,
                           own_.tx);
      own_.tx = 0;
      own_.check();
    }
    if (own_.pending > 0 && token_phase_ == own_.phase) {
      text_ +=
          fmt::format("mbarrier.arrive.shared.b64 _, [%bars+{}], {};\n", 8 * number_, own_.pending);
      own_.arrive(own_.pending);
    }
  }

  // False if the tuple is not legal in the barrier's state.
  bool run(const Tuple& t) {
    const bool remote = t.modifiers.space == StateSpace::kSharedCluster && random_() % 2 == 0;
    Model& model = remote ? peer_ : own_;
    switch (t.opcode()) {
      case Opcode::kMbarrierInit:
      case Opcode::kMbarrierInval:
        return true;  // at the sequence's ends
      case Opcode::kMbarrierArrive:
      case Opcode::kMbarrierArriveDrop:
        return arrive(t, model, remote);
      case Opcode::kMbarrierExpectTx:
      case Opcode::kMbarrierCompleteTx:
        return transact(t, model, remote);
      case Opcode::kMbarrierPendingCount:
        if (!has_token_) return false;
        text_ += t.mnemonic + " %r9, %d8;\ncvt.u64.u32 %d9, %r9;\n";
        expect(t, "pending count of a token", token_pending_);
        return true;
      case Opcode::kCpAsyncMbarrierArrive: {
        if (own_.pending < 2) return false;
        text_ += t.mnemonic + " " + address(t, false) + ";\ncp.async.wait_all;\n";
        if (t.has(Flag::kNoinc)) own_.arrive(1);
        observe(t);
        return true;
      }
      default:
        return wait(t);
    }
  }

  bool arrive(const Tuple& t, Model& model, bool remote) {
    const bool drop = t.opcode() == Opcode::kMbarrierArriveDrop;
    const bool transaction = t.has(Flag::kExpectTx);
    if (model.pending < 1) return false;
    if (drop && model.expected < 2) return false;
    int count = 1;
    std::string operand;
    bool has_count = t.has(Flag::kNoComplete);
    for (const ptx::OperandSlot& slot : t.form->operands) {
      if (slot.kind == 's' && slot.optional) has_count = random_() % 2 == 0;
    }
    if (transaction) {
      const int bytes = roll(1, 500);
      model.tx += bytes;
      operand = fmt::format(", {}", bytes);
    } else if (has_count) {
      count = roll(1, drop ? std::min(model.pending, model.expected - 1) : model.pending);
      if (t.has(Flag::kNoComplete)) count = std::min(count, model.pending - 1);
      if (count < 1) return false;
      operand = random_() % 2 == 0 ? fmt::format(", {}", count) : ", %r8";
      text_ += fmt::format("mov.u32 %r8, {};\n", count);
    }
    const bool sink = t.form->operands[0].kind == '_';
    text_ +=
        fmt::format("{} {}, {}{};\n", t.mnemonic, sink ? "_" : "%d8", address(t, remote), operand);
    const int before = model.pending;
    const int phase = model.phase;
    if (drop) model.expected -= count;
    model.arrive(count);
    if (!sink) {
      has_token_ = true;
      token_pending_ = static_cast<uint64_t>(before);
      token_phase_ = phase;
      text_ += "mbarrier.pending_count.b64 %r9, %d8;\ncvt.u64.u32 %d9, %r9;\n";
      expect(t, "pending count before", token_pending_);
    }
    observe(t);
    return true;
  }

  bool transact(const Tuple& t, Model& model, bool remote) {
    const bool expects = t.opcode() == Opcode::kMbarrierExpectTx;
    if (model.pending < 1 && (expects || model.tx <= 0)) return false;
    int bytes = roll(1, 700);
    if (!expects) {
      if (model.tx <= 0) return false;
      bytes = random_() % 2 == 0 ? model.tx : roll(1, model.tx);
    }
    text_ += fmt::format("mov.u32 %r8, {};\n{} {}, %r8;\n", bytes, t.mnemonic, address(t, remote));
    model.tx += expects ? bytes : -bytes;
    if (!expects) model.check();
    observe(t);
    return true;
  }

  bool wait(const Tuple& t) {
    const bool tries = t.opcode() == Opcode::kMbarrierTryWait;
    std::string operand;
    bool done = false;
    if (t.has(Flag::kParity)) {
      const int parity = static_cast<int>(random_() % 2);
      done = (own_.phase & 1) != parity;
      operand = fmt::format("{}", parity);
    } else {
      if (!has_token_ || own_.phase - token_phase_ > 1) return false;
      done = own_.phase > token_phase_;
      operand = "%d8";
    }
    // A try_wait that nothing can end has nothing to return for.
    if (tries && !done) return false;
    if (tries && random_() % 2 == 0) operand += ", 100";
    text_ += fmt::format("{} %p3, {}, {};\nselp.u64 %d9, 1, 0, %p3;\n", t.mnemonic,
                         address(t, false), operand);
    expect(t, "wait", done ? 1 : 0);
    return true;
  }

  void invalidate(const Tuple& target) {
    const Tuple& t =
        target.opcode() == Opcode::kMbarrierInval ? target : any(Opcode::kMbarrierInval);
    text_ += t.mnemonic + " " + address(t, false) + ";\n";
    const Tuple& init = any(Opcode::kMbarrierInit);
    own_.init(3);
    has_token_ = false;
    text_ += fmt::format("{} {}, 3;\n", init.mnemonic, address(init, false));
    observe(t);
    observe(init);
  }

  Random random_;
  std::map<Opcode, std::vector<Tuple>> by_opcode_;
  std::string text_;
  std::vector<Expectation> expected_;
  std::vector<Model> peers_;
  Model own_;
  Model peer_;
  int number_ = 0;
  bool has_token_ = false;
  uint64_t token_pending_ = 0;
  int token_phase_ = 0;
};

TEST(SlowReference, Mbarrier) {
  Ledger ledger(Group::kMbarrier);
  uint64_t seed = 1;
  int number = 0;
  Script script(seed);
  for (const Tuple& t : tuples_of(Group::kMbarrier)) {
    for (int i = 0; i < 6; ++i) {
      script.add(t, number++);
      if (number < kPrograms) continue;
      script.run_launch(ledger);
      script = Script(++seed);
      number = 0;
    }
  }
  script.run_launch(ledger);
  ledger.finish();
}

}  // namespace
}  // namespace tilewright::emulator::slow
