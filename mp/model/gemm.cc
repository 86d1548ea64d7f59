#include "mp/model/gemm.h"

#include <algorithm>

#include "dnnl.h"
#include "mp/base/status.h"

namespace mp::model {
namespace {

absl::Status ToStatus(dnnl_status_t status, int64_t m, int64_t n, int64_t k) {
  if (status == dnnl_success) return absl::OkStatus();
  const absl::string_view text = status == dnnl_out_of_memory       ? "out of memory"
                                 : status == dnnl_invalid_arguments ? "invalid arguments"
                                 : status == dnnl_unimplemented     ? "unimplemented"
                                                                    : "runtime error";
  return MakeError(ErrorKind::kDeviceError,
                   absl::StrCat("dnnl_sgemm of [", m, ", ", k, "] times [", k, ", ", n, "]: ", text,
                                " (", static_cast<int>(status), ")"));
}

}  // namespace

absl::Status MultiplyTransposed(const Matrix& a, const Matrix& b, int64_t m, int64_t n, int64_t k,
                                float scale, float* out, int64_t out_pitch) {
  if (m == 0 || n == 0) return absl::OkStatus();
  if (k == 0) {
    for (int64_t i = 0; i < m; ++i) std::fill_n(out + i * out_pitch, n, 0.0f);
    return absl::OkStatus();
  }
  return ToStatus(
      dnnl_sgemm('N', 'T', m, n, k, scale, a.data, a.pitch, b.data, b.pitch, 0.0f, out, out_pitch),
      m, n, k);
}

}  // namespace mp::model
