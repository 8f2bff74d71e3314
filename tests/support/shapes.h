// The shape library of kernel tests: problems by level, always with 1, tile edges, primes,
// seqlen_q != seqlen_k both ways, empty rows and group sizes 1 and 8.
#pragma once

#include <string>
#include <vector>

namespace tilewright::testing {

// Problem texts of a pass that every device of a level must get right.
std::vector<std::string> forward_smoke();
std::vector<std::string> forward_standard();
// Without the word `backward`.
std::vector<std::string> backward_smoke();
std::vector<std::string> backward_standard();
// Masks that are no interval a row.
std::vector<std::string> sparse_smoke();

// A test name made of a problem text: letters, digits and underscores.
std::string test_name(const std::string& problem);

}  // namespace tilewright::testing
