// A kernel of the house as a subject: what the generator emits for a problem and a config, run as a
// trial (NaN in every gap, guards, fp64) with whatever PTX is given.
#pragma once

#include <memory>
#include <string>

#include "tests/hopper_kernels/subject.h"

namespace tilewright::hopper_kernels {

// `problem` and `config` in their text forms, of the family forward_sm90; the problem is complete.
std::unique_ptr<Subject> make_generated(std::string name, const std::string& problem,
                                        const std::string& config);

}  // namespace tilewright::hopper_kernels
