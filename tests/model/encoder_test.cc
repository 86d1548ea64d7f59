// Shows what one rank's encoder refuses, with nothing queued; what it computes is shown by
// embedder_test.cc.
#include "mp/model/encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mp/host/backend.h"
#include "tests/files/samples.h"
#include "tests/model/tiny_model.h"
#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

using test::KindIs;
using ::testing::HasSubstr;

std::shared_ptr<const TokenBatch> BatchOf(const std::vector<std::vector<int32_t>>& texts) {
  if (texts.empty()) return std::make_shared<const TokenBatch>();
  return std::make_shared<const TokenBatch>(MakeBatches(texts, 1000)[0]);
}

TEST(Encoder, RefusesBatchesThatItHasNoRoomFor) {
  const TinyModel model = TinyModel::Make(TinyConfig(), 1);
  files::TempFolder temp;
  model.Write(temp.path());
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(temp.path(), model.config));
  ASSERT_OK_AND_ASSIGN(auto backend, host::NewBackend({.devices = 1, .threads = 1}));
  ASSERT_OK_AND_ASSIGN(auto world, World::Create(backend));
  EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(const Buffer joined, rank.device().Allocate(DType::kF32, {8, 35}));
    MP_ASSIGN_OR_RETURN(const Buffer output, rank.device().Allocate(DType::kF32, {2, 35}));
    MP_ASSIGN_OR_RETURN(
        auto encoder, Encoder::Create(rank, model.config, checkpoint,
                                      {.batch_tokens = 8, .longest = 5, .joined = joined.view()}));
    const auto nothing = [](const EncoderPass&) { return absl::OkStatus(); };
    const auto refused = [&](const std::vector<std::vector<int32_t>>& texts, const char* text) {
      EXPECT_THAT(encoder->Enqueue({{BatchOf(texts), output.view()}}, nothing),
                  KindIs(ErrorKind::kInvalidArgument, HasSubstr(text)));
    };
    refused({}, "without a text");
    refused({{1, 2, 3, 4, 5}, {1, 2, 3, 4}}, "9 tokens, the first text of 5: at most 8 and 5");
    refused({{1, 2, 3, 4, 5, 6}}, "6 tokens, the first text of 6");
    const EncoderPass pass{BatchOf({{1, 2, 3, 4, 5}, {1, 2, 3}}), output.view()};
    EXPECT_THAT(encoder->Enqueue({pass, pass}, nothing),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr("2 batches at once, must be 1..1")));
    EXPECT_THAT(encoder->Enqueue({}, nothing),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr("0 batches")));
    MP_RETURN_IF_ERROR(encoder->Enqueue({pass}, nothing));
    return rank.stream().Synchronize();
  }));
}

}  // namespace
}  // namespace mp::model
