// The parts of fmt that are not templates, compiled once. Debian has no static fmt, and its
// header-only form compiles them in every file that formats, which doubled the time of a build.
// What fmt's headers declare and leave to its library is defined by format-inl.h, or instantiated
// here.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;

template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);

}  // namespace detail
FMT_END_NAMESPACE
