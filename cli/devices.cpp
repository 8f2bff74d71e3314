#include "cli/commands.h"
#include "cli/common.h"
#include "cli/console.h"
#include "core/check.h"
#include "core/text.h"
#include "runtime/device.h"

namespace tilewright::cli {

int run_devices(Words words) {
  CommonFlags flags;
  ArgumentParser parser("devices", "Lists the GPUs here and the devices that can be emulated.");
  add_json_flag(parser, flags);
  if (const auto code = parser.parse_or_finish(words)) return *code;

  std::string driver_error;
  const std::vector<DeviceListing> devices = list_devices(&driver_error);
  if (flags.json) {
    Json list = Json::array();
    for (const DeviceListing& device : devices) {
      list.push(Json::object({{"device", device.name},
                              {"name", device.info.name},
                              {"target", device.info.target},
                              {"simulated", device.info.simulated},
                              {"num_sms", device.info.num_sms},
                              {"memory_bytes", device.info.memory_bytes}}));
    }
    print_json(Json::object({{"devices", std::move(list)},
                             {"driver_error", driver_error.empty() ? Json() : driver_error}}));
    return kSuccess;
  }
  Table table;
  for (const DeviceListing& device : devices) {
    table.row({device.name, device.info.target, fmt::format("{} SMs", device.info.num_sms),
               bytes_text(device.info.memory_bytes), device.info.name});
  }
  print_text(table.text());
  if (!driver_error.empty()) print_text(fmt::format("no GPU: {}\n", driver_error));
  return kSuccess;
}

}  // namespace tilewright::cli
