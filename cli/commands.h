// The subcommands of `tilewright`. Each takes the words after its name and returns the exit code.
#pragma once

#include <span>
#include <string>

namespace tilewright::cli {

using Words = std::span<const std::string>;

int run_devices(Words words);
int run_run(Words words);
int run_compile(Words words);
int run_explain(Words words);
int run_cache(Words words);
int run_io(Words words);
int run_doctor(Words words);

}  // namespace tilewright::cli
