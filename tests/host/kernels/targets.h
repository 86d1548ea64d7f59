// Runs a test suite once for every vector target that is compiled in and that this machine has:
//
//   class FoldTest : public OnEveryTarget {};
//   MP_INSTANTIATE_ON_EVERY_TARGET(FoldTest);
#ifndef MP_TESTS_HOST_KERNELS_TARGETS_H_
#define MP_TESTS_HOST_KERNELS_TARGETS_H_

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "hwy/targets.h"

namespace mp::host {

class OnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  OnEveryTarget() { Choose(GetParam()); }
  ~OnEveryTarget() override { Choose(0); }

  // Makes every dispatch take this target; 0 means the best again.
  static void Choose(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

inline std::string TargetTestName(const testing::TestParamInfo<int64_t>& instance) {
  return hwy::TargetName(instance.param);
}

#define MP_INSTANTIATE_ON_EVERY_TARGET(suite)                                                      \
  INSTANTIATE_TEST_SUITE_P(Targets, suite, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), \
                           ::mp::host::TargetTestName)

}  // namespace mp::host

#endif  // MP_TESTS_HOST_KERNELS_TARGETS_H_
