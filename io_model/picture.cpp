#include "io_model/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tilewright::io_model {
namespace {

constexpr double kWidth = 900, kHeight = 600;
constexpr double kLeft = 90, kRight = 230, kTop = 50, kBottom = 60;  // margins; the legend is right

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// One logarithmic axis: from whole power to whole power of `base`.
struct Axis {
  double base, low, high;  // exponents
  double from, to;         // pixels

  double at(double value) const {
    const double exponent = std::log(value) / std::log(base);
    return from + (exponent - low) / (high - low) * (to - from);
  }
};

Axis make_axis(double base, double least, double most, double from, double to) {
  const double low = std::floor(std::log(least) / std::log(base) + 1e-9);
  const double high = std::ceil(std::log(most) / std::log(base) - 1e-9);
  return {base, low, std::max(high, low + 1), from, to};
}

void draw_axes(std::string& svg, const Picture& picture, const Axis& x, const Axis& y) {
  for (double exponent = x.low; exponent <= x.high; ++exponent) {
    const double px = x.at(std::pow(x.base, exponent));
    svg += fmt::format("<line x1='{0:.1f}' y1='{1:.1f}' x2='{0:.1f}' y2='{2:.1f}' class='grid'/>\n",
                       px, y.from, y.to);
    svg += fmt::format(
        "<text x='{:.1f}' y='{:.1f}' class='tick' text-anchor='middle'>2<tspan "
        "dy='-5' font-size='9'>{:.0f}</tspan></text>\n",
        px, y.from + 18, exponent);
  }
  for (double exponent = y.low; exponent <= y.high; ++exponent) {
    const double py = y.at(std::pow(y.base, exponent));
    svg += fmt::format("<line x1='{1:.1f}' y1='{0:.1f}' x2='{2:.1f}' y2='{0:.1f}' class='grid'/>\n",
                       py, x.from, x.to);
    svg += fmt::format(
        "<text x='{:.1f}' y='{:.1f}' class='tick' text-anchor='end'>10<tspan "
        "dy='-5' font-size='9'>{:.0f}</tspan></text>\n",
        x.from - 8, py + 4, exponent);
  }
  svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n",
                     (x.from + x.to) / 2, kHeight - 15, escaped(picture.x_label));
  svg += fmt::format(
      "<text transform='translate(25 {:.1f}) rotate(-90)' "
      "text-anchor='middle'>{}</text>\n",
      (y.from + y.to) / 2, escaped(picture.y_label));
  svg += fmt::format("<text x='{:.1f}' y='28' font-size='16'>{}</text>\n", x.from,
                     escaped(picture.title));
}

void draw_curve(std::string& svg, const PictureCurve& curve, const Axis& x, const Axis& y) {
  if (curve.points_only) {
    for (const PicturePoint& point : curve.points) {
      svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3.5' fill='none' stroke='{}'/>\n",
                         x.at(point.x), y.at(point.y), curve.colour);
    }
    return;
  }
  std::string path;
  for (const PicturePoint& point : curve.points) {
    path += fmt::format("{:.1f},{:.1f} ", x.at(point.x), y.at(point.y));
  }
  svg += fmt::format("<polyline points='{}' fill='none' stroke='{}' stroke-width='2'{}/>\n", path,
                     curve.colour, curve.dashed ? " stroke-dasharray='6 4'" : "");
}

void draw_legend(std::string& svg, const std::vector<PictureCurve>& curves, double left) {
  double line = kTop + 10;
  for (const PictureCurve& curve : curves) {
    if (curve.points.empty()) continue;
    if (curve.points_only) {
      svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3.5' fill='none' stroke='{}'/>\n",
                         left + 12, line, curve.colour);
    } else {
      svg += fmt::format(
          "<line x1='{0:.1f}' y1='{2:.1f}' x2='{1:.1f}' y2='{2:.1f}' stroke='{3}' "
          "stroke-width='2'{4}/>\n",
          left, left + 24, line, curve.colour, curve.dashed ? " stroke-dasharray='6 4'" : "");
    }
    svg += fmt::format("<text x='{:.1f}' y='{:.1f}' class='tick'>{}</text>\n", left + 30, line + 4,
                       escaped(curve.label));
    line += 20;
  }
}

}  // namespace

std::string draw_svg(const Picture& picture) {
  double least_x = 1e300, most_x = 0, least_y = 1e300, most_y = 0;
  for (const PictureCurve& curve : picture.curves) {
    for (const PicturePoint& point : curve.points) {
      least_x = std::min(least_x, point.x);
      most_x = std::max(most_x, point.x);
      least_y = std::min(least_y, point.y);
      most_y = std::max(most_y, point.y);
    }
  }
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
      "font-family='sans-serif' font-size='13'>\n"
      "<style>.grid{{stroke:#dddddd}} .tick{{font-size:12px}}</style>\n"
      "<rect width='{0}' height='{1}' fill='white'/>\n",
      kWidth, kHeight);
  if (most_x > 0) {
    const Axis x = make_axis(2, least_x, most_x, kLeft, kWidth - kRight);
    const Axis y = make_axis(10, least_y, most_y, kHeight - kBottom, kTop);
    draw_axes(svg, picture, x, y);
    if (picture.marked_x > least_x && picture.marked_x < most_x) {
      svg += fmt::format(
          "<line x1='{0:.1f}' y1='{1:.1f}' x2='{0:.1f}' y2='{2:.1f}' "
          "stroke='#555555' stroke-dasharray='3 3'/>\n"
          "<text x='{3:.1f}' y='{4:.1f}' class='tick'>{5}</text>\n",
          x.at(picture.marked_x), y.from, y.to, x.at(picture.marked_x) + 5, y.to + 14,
          escaped(picture.marked_label));
    }
    for (const PictureCurve& curve : picture.curves) {
      if (!curve.points.empty()) draw_curve(svg, curve, x, y);
    }
    draw_legend(svg, picture.curves, kWidth - kRight + 15);
  }
  return svg + "</svg>\n";
}

}  // namespace tilewright::io_model
