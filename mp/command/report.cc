#include "mp/command/report.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/files/printable.h"
#include "nlohmann/json.hpp"

namespace mp::command {
namespace {

int64_t TotalBytes(const Job& job) {
  int64_t bytes = 0;
  for (const Step& step : job.steps) bytes += step.size_bytes();
  return bytes;
}

std::string Content(const Job& job) {
  if (job.steps.size() == 1) {
    return absl::StrCat(DTypeName(job.steps[0].dtype), job.steps[0].shape.ToString());
  }
  return absl::StrCat(job.steps.size(), " tensors");
}

nlohmann::ordered_json TensorJson(const Step& step) {
  const auto dims = step.shape.dims();
  nlohmann::ordered_json tensor = {{"dtype", std::string(DTypeName(step.dtype))},
                                   {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                                   {"bytes", step.size_bytes()}};
  if (!step.name.empty()) tensor["name"] = step.name;
  if (step.kind == Step::Kind::kGather) tensor["dim"] = step.dim;
  if (step.kind == Step::Kind::kSame) tensor["same"] = true;
  return tensor;
}

}  // namespace

std::string ReportText(const Report& report, const Job& job) {
  std::string text;
  for (const files::TensorFileWriter& output : job.outputs) {
    absl::StrAppend(&text, files::Printable(output.path()), ": ", Content(job), ", ",
                    TotalBytes(job), " bytes, from ", report.ranks,
                    report.ranks == 1 ? " rank" : " ranks",
                    report.backend == "host" ? "" : absl::StrCat(" on ", report.backend), " in ",
                    absl::FormatDuration(absl::Trunc(report.elapsed, absl::Microseconds(1))), "\n");
  }
  return text;
}

std::string ReportJson(const Report& report, const Job& job) {
  nlohmann::ordered_json json = {{"command", report.command},
                                 {"backend", report.backend},
                                 {"ranks", report.ranks},
                                 {"bytes", TotalBytes(job)},
                                 {"seconds", absl::ToDoubleSeconds(report.elapsed)}};
  json["outputs"] = nlohmann::ordered_json::array();
  for (const files::TensorFileWriter& output : job.outputs)
    json["outputs"].push_back(output.path());
  json["tensors"] = nlohmann::ordered_json::array();
  for (const Step& step : job.steps) json["tensors"].push_back(TensorJson(step));
  using nlohmann::ordered_json;
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace mp::command
