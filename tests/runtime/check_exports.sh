#!/bin/sh
# check_exports.sh LIBRARY: libtilewright.so exports the public API only and needs neither LLVM nor
# fmt of the system.
set -eu
library=$1
exported=$(nm -D --defined-only --demangle "$library" | cut -d' ' -f3-)
foreign=$(printf '%s\n' "$exported" | grep -v -e '^tilewright::' -e '^tilewright_version$' || true)
if [ -n "$foreign" ]; then
  printf 'exported, and not of the public API:\n%s\n' "$foreign"
  exit 1
fi
for internal in KernelCache Device Nvrtc emulator Session::Impl llvm fmt; do
  if printf '%s\n' "$exported" | grep -q -e "^tilewright::$internal"; then
    echo "exported, and internal: $internal"
    exit 1
  fi
done
for name in tilewright_version tilewright::Session::open tilewright::Session::prepare \
    tilewright::Session::prefetch tilewright::Kernel::launch tilewright::Kernel::plan \
    tilewright::Kernel::pack_params tilewright::Kernel::entries tilewright::Kernel::make_schedule \
    tilewright::choose_num_splits tilewright::check_cu_seqlens tilewright::check_pages \
    tilewright::Problem::parse tilewright::validate tilewright::Options::from_environment tilewright::Error::to_string; do
  if ! printf '%s\n' "$exported" | grep -q -e "^$name"; then
    echo "not exported: $name"
    exit 1
  fi
done
if readelf -d "$library" | grep NEEDED | grep -e LLVM -e fmt -e cuda -e nvrtc; then
  echo "needed at run time: see above"
  exit 1
fi
