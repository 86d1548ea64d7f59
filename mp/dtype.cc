#include "mp/dtype.h"

#include <array>

namespace mp {
namespace {

constexpr std::array<absl::string_view, kDTypeCount> kDTypeNames{
    "f32", "f64",  "f16",    "bf16",   "i8",  "u8",  "i32", "u32",  "i64",
    "u64", "bool", "f8e4m3", "f8e5m2", "i16", "u16", "c64", "c128",
};
constexpr std::array<absl::string_view, kReduceOpCount> kReduceOpNames{"sum", "prod", "min", "max",
                                                                       "avg"};

template <typename Enum, size_t N>
std::optional<Enum> FromName(const std::array<absl::string_view, N>& names,
                             absl::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

absl::string_view DTypeName(DType dtype) { return kDTypeNames[static_cast<size_t>(dtype)]; }
std::optional<DType> DTypeFromName(absl::string_view name) {
  return FromName<DType>(kDTypeNames, name);
}

absl::string_view ReduceOpName(ReduceOp op) { return kReduceOpNames[static_cast<size_t>(op)]; }
std::optional<ReduceOp> ReduceOpFromName(absl::string_view name) {
  return FromName<ReduceOp>(kReduceOpNames, name);
}

}  // namespace mp
