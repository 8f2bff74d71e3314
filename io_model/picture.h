// A log-log diagram as SVG text: curves, points, one marked x. Pure; the caller writes the file.
#pragma once

#include <string>
#include <vector>

namespace tilewright::io_model {

struct PicturePoint {
  double x = 0, y = 0;  // positive
};

struct PictureCurve {
  std::string label;
  std::string colour;  // of SVG: "#1f77b4"
  std::vector<PicturePoint> points;
  bool dashed = false;
  bool points_only = false;  // circles and no line
};

struct Picture {
  std::string title, x_label, y_label;
  std::vector<PictureCurve> curves;  // curves without points are left out
  double marked_x = 0;               // 0: none
  std::string marked_label;
};

std::string draw_svg(const Picture& picture);

}  // namespace tilewright::io_model
