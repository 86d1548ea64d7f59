// A peer: Gloo with a thread per rank, over TCP on the loopback interface, which is the transport
// that it has within one machine.
//
// MP_GLOO in the environment names the algorithm of allreduce: ring (the default), halving (halving
// and doubling) or polling (the same with pairs that poll, its way of low latency).  It joins flat
// memory only: a copy puts the rows in their places.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include <functional>
#include <memory>

#include "measure.h"
#include "threads.h"

namespace {

using namespace peers;

using Links = std::shared_ptr<gloo::rendezvous::Context>;  // a rank's, to all others

std::function<void()> Reduction(const Links& context, std::vector<float>& data,
                                const std::string& algorithm) {
  if (algorithm != "ring") {
    using Halving = gloo::AllreduceHalvingDoubling<float>;
    const std::vector<float*> pointers = {data.data()};
    const auto halving =
        std::make_shared<Halving>(context, pointers, static_cast<int>(data.size()));
    return [halving] { halving->run(); };
  }
  return [&context, &data] {
    gloo::AllreduceOptions options(context);
    options.setOutput(data.data(), data.size());
    using Sum = void (*)(void*, const void*, const void*, size_t);
    options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
    gloo::allreduce(options);
  };
}

bool Reduce(const Arguments& arguments, const Links& context, ThreadGroup& group, int rank,
            size_t bytes, const std::string& algorithm) {
  std::vector<float> data(ShapeOf(arguments, bytes).count(), static_cast<float>(rank + 1));
  const std::function<void()> reduce = Reduction(context, data, algorithm);
  reduce();
  CheckAll(data.data(), data.size(), SumOf(arguments.ranks));
  std::fill(data.begin(), data.end(), 0.0f);
  return Time(arguments, group, rank, bytes, reduce);
}

bool Gather(const Arguments& arguments, const Links& context, ThreadGroup& group, int rank,
            size_t bytes) {
  const Shape shape = ShapeOf(arguments, bytes);
  const auto ranks = static_cast<size_t>(arguments.ranks);
  const bool all = arguments.op == "allgather";
  std::vector<float> mine(shape.count(), static_cast<float>(rank + 1));
  std::vector<float> flat(shape.count() * ranks), joined(shape.count() * ranks);
  const auto gather = [&] {
    if (all) {
      gloo::AllgatherOptions options(context);
      options.setInput(mine.data(), mine.size());
      options.setOutput(flat.data(), flat.size());
      gloo::allgather(options);
    } else {
      gloo::GatherOptions options(context);
      options.setInput(mine.data(), mine.size());
      if (rank == 0) options.setOutput(flat.data(), flat.size());
      options.setRoot(0);
      gloo::gather(options);
    }
    if (!all && rank != 0) return;
    for (size_t source = 0; source < ranks; ++source) {
      for (size_t row = 0; row < shape.rows; ++row) {
        std::memcpy(&joined[(row * ranks + source) * shape.columns],
                    &flat[(source * shape.rows + row) * shape.columns],
                    shape.columns * sizeof(float));
      }
    }
  };
  gather();
  if (all || rank == 0) CheckJoined(joined.data(), shape, arguments.ranks);
  return Time(arguments, group, rank, bytes, gather);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  const char* named = std::getenv("MP_GLOO");
  const std::string algorithm = named == nullptr ? "ring" : named;
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::HashStore store;
  ThreadGroup group(arguments.ranks);
  OnThreads(arguments.ranks, [&](int rank) {
    const auto context = std::make_shared<gloo::rendezvous::Context>(rank, arguments.ranks);
    std::shared_ptr<gloo::transport::Device> mine = device;
    context->connectFullMesh(store, mine);
    for (int other = 0; algorithm == "polling" && other < arguments.ranks; ++other) {
      if (other != rank) context->getPair(other)->setSync(true, true);
    }
    for (const size_t bytes : arguments.sizes) {
      const bool goes_on = arguments.op == "allreduce"
                               ? Reduce(arguments, context, group, rank, bytes, algorithm)
                               : Gather(arguments, context, group, rank, bytes);
      if (!goes_on) break;
    }
    group.Barrier();
  });
}
