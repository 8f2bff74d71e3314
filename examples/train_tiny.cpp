// Trains a small attention layer: the forward and the backward kernel on the device, the linear
// maps around them and Adam (Kingma & Ba 2014) on the host. The task: of a random word, say at each
// place which letter stood at the place before. The layer is told the letter and the place, so it
// has to learn to look one place back. Prints the loss; succeeds if it falls below kTarget.
//
// Needs nothing but Tilewright's public headers; runs on a GPU if there is one, else on the
// emulated one.
#include <tilewright/session.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tw = tilewright;

namespace {

constexpr int64_t kBatch = 4, kLength = 20, kRows = kBatch * kLength;
constexpr int64_t kHeads = 2, kHeadDim = 16, kWidth = kHeads * kHeadDim;
constexpr int64_t kLetters = 8, kFrequencies = 8, kInput = kLetters + 2 * kFrequencies;
constexpr int kSteps = 60;
// Mean squared distance to the right letter's unit vector: 1 for silence, 7/8 for the best guess
// that does not look back.
constexpr double kTarget = 0.1;

// --- Host side: row-major matrices. ---

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;

  Matrix() = default;
  Matrix(int64_t num_rows, int64_t num_columns)
      : rows(num_rows), columns(num_columns), values(static_cast<size_t>(rows * columns)) {}
  float& at(int64_t row, int64_t column) {
    return values[static_cast<size_t>(row * columns + column)];
  }
  float at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
};

Matrix transposed(const Matrix& a) {
  Matrix result(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) result.at(j, i) = a.at(i, j);
  }
  return result;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = 0; k < a.columns; ++k) {
      for (int64_t j = 0; j < b.columns; ++j) result.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return result;
}

// The same numbers in every run.
class Random {
 public:
  uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  float uniform() { return static_cast<float>(next()) / 1073741824.0f - 1.0f; }  // [-1, 1)

 private:
  uint64_t state_ = 20261130;
};

// A matrix that is learnt.
class Parameter {
 public:
  Parameter(int64_t rows, int64_t columns, Random& random)
      : value_(rows, columns), mean_(rows, columns), square_(rows, columns) {
    const float size = std::sqrt(3.0f / static_cast<float>(rows));  // variance 1 / rows
    for (float& each : value_.values) each = size * random.uniform();
  }
  const Matrix& value() const { return value_; }

  void descend(const Matrix& gradient, int step) {
    constexpr float kRate = 0.03f, kMeanDecay = 0.9f, kSquareDecay = 0.99f;
    const float mean_scale = 1.0f / (1.0f - std::pow(kMeanDecay, static_cast<float>(step)));
    const float square_scale = 1.0f / (1.0f - std::pow(kSquareDecay, static_cast<float>(step)));
    for (size_t i = 0; i < value_.values.size(); ++i) {
      const float slope = gradient.values[i];
      float& mean = mean_.values[i];
      float& square = square_.values[i];
      mean = kMeanDecay * mean + (1.0f - kMeanDecay) * slope;
      square = kSquareDecay * square + (1.0f - kSquareDecay) * slope * slope;
      value_.values[i] -= kRate * mean * mean_scale / (std::sqrt(square * square_scale) + 1e-8f);
    }
  }

 private:
  Matrix value_, mean_, square_;
};

// Random words: what the layer is told of each place, and the letter before it as a unit vector
// (the first place has none: 0).
struct Words {
  Matrix input{kRows, kInput};
  Matrix target{kRows, kLetters};

  explicit Words(Random& random) {
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t place = row % kLength;
      const auto letter = static_cast<int64_t>(random.next() % kLetters);
      input.at(row, letter) = 1.0f;
      for (int64_t f = 0; f < kFrequencies; ++f) {
        const float angle = static_cast<float>(place) * 2.0f / static_cast<float>(f + 1);
        input.at(row, kLetters + 2 * f) = std::sin(angle);
        input.at(row, kLetters + 2 * f + 1) = std::cos(angle);
      }
      if (place + 1 < kLength) target.at(row + 1, letter) = 1.0f;
    }
  }
};

// --- Device side: one kernel and a tensor for each of its requirements. ---

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Tensors by the names that plans give them. Forward and backward share those of one name.
class DeviceTensors {
 public:
  explicit DeviceTensors(tw::Session& session) : session_(session) {}

  tw::Status allocate(const std::vector<tw::TensorRequirement>& requirements) {
    for (const tw::TensorRequirement& requirement : requirements) {
      tw::Tensor& tensor = tensors_[requirement.name];
      if (tensor.data != nullptr) continue;
      tensor.dtype = requirement.dtype;
      tensor.rank = static_cast<int>(requirement.shape.size());
      int64_t elements = 1;
      for (size_t dim = requirement.shape.size(); dim-- > 0;) {
        tensor.shape[dim] = requirement.shape[dim];
        tensor.strides[dim] = elements;
        elements *= requirement.shape[dim];
      }
      auto memory = session_.allocate(elements * tw::size_in_bytes(requirement.dtype));
      if (!memory) return memory.error();
      tensor.data = *memory;
    }
    return {};
  }
  tw::Status release() {
    for (auto& [name, tensor] : tensors_) {
      if (auto released = session_.release(tensor.data); !released) return released;
    }
    return {};
  }

  // [batch, seqlen, heads, dim] in bf16 is one row of `kWidth` values per place.
  tw::Status write(const std::string& name, const Matrix& matrix) {
    std::vector<uint16_t> bits;
    for (const float value : matrix.values) bits.push_back(to_bf16(value));
    return session_.copy_in(tensors_[name].data, bits.data(), kBytes);
  }
  tw::Result<Matrix> read(const std::string& name) {
    std::vector<uint16_t> bits(kRows * kWidth);
    if (auto copied = session_.copy_out(bits.data(), tensors_[name].data, kBytes); !copied) {
      return copied.error();
    }
    Matrix matrix(kRows, kWidth);
    for (size_t i = 0; i < bits.size(); ++i) matrix.values[i] = from_bf16(bits[i]);
    return matrix;
  }

  tw::LaunchTensors all(void* workspace) {
    return {.q = tensors_["q"],
            .k = tensors_["k"],
            .v = tensors_["v"],
            .out = tensors_["out"],
            .lse = tensors_["lse"],
            .dout = tensors_["dout"],
            .dq = tensors_["dq"],
            .dk = tensors_["dk"],
            .dv = tensors_["dv"],
            .workspace = workspace};
  }

 private:
  static constexpr int64_t kBytes = kRows * kWidth * 2;
  tw::Session& session_;
  std::map<std::string, tw::Tensor> tensors_;
};

// Causal attention of rows of Q, K and V, and its gradients.
class Attention {
 public:
  static tw::Result<Attention> make(tw::Session& session) {
    Attention attention(session);
    if (auto status = attention.prepare(); !status) return status.error();
    return attention;
  }

  tw::Result<Matrix> forward(const Matrix& q, const Matrix& k, const Matrix& v) {
    for (const auto& [name, matrix] : {std::pair("q", &q), {"k", &k}, {"v", &v}}) {
      if (auto written = tensors_.write(name, *matrix); !written) return written.error();
    }
    if (auto run = launch(*forward_, forward_plan_); !run) return run.error();
    return tensors_.read("out");
  }

  struct Gradients {
    Matrix dq, dk, dv;
  };
  // Of the inputs and the output of the last forward().
  tw::Result<Gradients> backward(const Matrix& dout) {
    if (auto written = tensors_.write("dout", dout); !written) return written.error();
    if (auto run = launch(*backward_, backward_plan_); !run) return run.error();
    Gradients gradients;
    for (const auto& [name, matrix] :
         {std::pair("dq", &gradients.dq), {"dk", &gradients.dk}, {"dv", &gradients.dv}}) {
      auto values = tensors_.read(name);
      if (!values) return values.error();
      *matrix = *values;
    }
    return gradients;
  }

  std::string configs() const { return forward_->config_text() + "\n" + backward_->config_text(); }

  tw::Status release() {
    if (auto released = session_.release(workspace_); !released) return released;
    return tensors_.release();
  }

 private:
  explicit Attention(tw::Session& session) : session_(session), tensors_(session) {}

  tw::Status prepare() {
    const std::string dims = "hq2 hkv2 qk16 v16 bf16 causal";
    for (const std::string pass : {"forward ", "backward "}) {
      auto problem = tw::Problem::parse(pass + dims);
      if (!problem) return problem.error();
      auto kernel = session_.prepare(*problem);
      if (!kernel) return kernel.error();
      auto plan = kernel->plan({.batch = kBatch, .seqlen_q = kLength, .seqlen_k = kLength});
      if (!plan) return plan.error();
      if (auto allocated = tensors_.allocate(plan->tensors); !allocated) return allocated;
      (pass == "forward " ? forward_ : backward_) = *kernel;
      (pass == "forward " ? forward_plan_ : backward_plan_) = *plan;
    }
    auto memory =
        session_.allocate(std::max(forward_plan_.workspace_bytes, backward_plan_.workspace_bytes));
    if (!memory) return memory.error();
    workspace_ = *memory;
    return {};
  }

  tw::Status launch(const tw::Kernel& kernel, const tw::LaunchPlan& plan) {
    return kernel.launch(nullptr, plan, tensors_.all(workspace_));
  }

  tw::Session& session_;
  DeviceTensors tensors_;
  std::optional<tw::Kernel> forward_, backward_;
  tw::LaunchPlan forward_plan_, backward_plan_;
  void* workspace_ = nullptr;
};

// --- The layer: answer = Attention(X·Wq, X·Wk, X·Wv)·Wo. ---

class Layer {
 public:
  explicit Layer(Random& random)
      : wq_(kInput, kWidth, random),
        wk_(kInput, kWidth, random),
        wv_(kInput, kWidth, random),
        wo_(kWidth, kLetters, random) {}

  // One step of descent; the loss before it.
  tw::Result<double> step(Attention& attention, const Words& words, int number) {
    const Matrix& x = words.input;
    const auto out = attention.forward(product(x, wq_.value()), product(x, wk_.value()),
                                       product(x, wv_.value()));
    if (!out) return out.error();
    Matrix difference = product(*out, wo_.value());
    double loss = 0;
    for (size_t i = 0; i < difference.values.size(); ++i) {
      difference.values[i] -= words.target.values[i];
      loss += double{difference.values[i]} * difference.values[i] / kRows;
      difference.values[i] *= 2.0f / kRows;
    }
    const auto gradients = attention.backward(product(difference, transposed(wo_.value())));
    if (!gradients) return gradients.error();
    wo_.descend(product(transposed(*out), difference), number);
    const Matrix x_transposed = transposed(x);
    wq_.descend(product(x_transposed, gradients->dq), number);
    wk_.descend(product(x_transposed, gradients->dk), number);
    wv_.descend(product(x_transposed, gradients->dv), number);
    return loss;
  }

 private:
  Parameter wq_, wk_, wv_, wo_;
};

int fail(const tw::Error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

}  // namespace

int main() {
  auto session = tw::Session::open(tw::Options::from_environment());
  if (!session) return fail(session.error());
  auto attention = Attention::make(**session);
  if (!attention) return fail(attention.error());
  std::printf("%s\n%s\n", (*session)->device().name.c_str(), attention->configs().c_str());

  Random random;
  Layer layer(random);
  double loss = 0;
  for (int step = 1; step <= kSteps; ++step) {
    const auto before = layer.step(*attention, Words(random), step);
    if (!before) return fail(before.error());
    loss = *before;
    if (step == 1 || step % 20 == 0) std::printf("step %3d: loss %.3f\n", step, loss);
  }
  if (auto released = attention->release(); !released) return fail(released.error());
  std::printf("target %.3f: %s\n", kTarget, loss <= kTarget ? "reached" : "missed");
  return loss <= kTarget ? 0 : 1;  // NaN misses
}
