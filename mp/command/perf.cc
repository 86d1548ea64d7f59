// mp perf: latency and bandwidth of the operations, every element checked.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "mp/base/status.h"
#include "mp/command/backend_flag.h"
#include "mp/command/command.h"
#include "mp/command/perf_compare.h"
#include "mp/command/perf_peers.h"
#include "mp/command/perf_run.h"
#include "mp/world.h"
#include "nlohmann/json.hpp"

namespace mp::command {
namespace {

constexpr char kDescription[] = "Measures an operation over a range of sizes.";

constexpr char kFooter[] =
    "The columns are those of nccl-tests: size is what a rank reduces, or what a gather makes; "
    "time\n"
    "is the mean of operations queued one behind the other, algbw = size / time, and busbw is\n"
    "algbw times 2 (n - 1) / n for allreduce, (n - 1) / n for gathers: what each rank's link "
    "would\n"
    "carry.  #wrong counts elements over all ranks.  min, median and p99 are of operations that "
    "are\n"
    "waited for each.  In place means into the input, and for gathers from the shards' own slots "
    "in\n"
    "the result, where nothing is copied.\n"
    "\n"
    "Examples:\n"
    "  mp perf --ranks=4\n"
    "  mp perf --op=gather --rows=64 --uneven --min_bytes=1M --max_bytes=64M\n"
    "  mp perf --backend=cuda --devices=0,0,0,0 --dtype=bf16 --json\n"
    "  mp perf --backend=host --op=allgather --ranks=4 --peers";

struct PerfOptions {
  BackendFlags backend;
  std::string op = "allreduce";
  std::string dtype = "f32";
  std::string reduce_op = "sum";
  std::string door = "rank";
  int ranks = 2;
  int threads = 0;
  int64_t min_bytes = 8;
  int64_t max_bytes = int64_t{16} << 20;
  int64_t factor = 4;
  double seconds = 0;
  bool json = false;
  bool compares = false;
  std::string peers;  // their folder; "" for $MP_PEERS
  std::vector<Peer> found_peers;
  int rounds = 3;
  PerfSpec spec;
};

// Peers take tensors of f32, even shards and root 0.
absl::Status CheckPeers(PerfOptions& options) {
  const PerfSpec& spec = options.spec;
  if (spec.dtype != DType::kF32 || options.reduce_op != "sum" || spec.uneven || spec.root != 0 ||
      spec.batch != 1 || spec.overlap) {
    return InvalidArgument("--peers goes with f32, sums, even shards and root 0, one at a time");
  }
  const char* built = std::getenv("MP_PEERS");
  if (options.peers.empty() && built != nullptr) options.peers = built;
  if (!options.peers.empty()) {
    MP_ASSIGN_OR_RETURN(options.found_peers, FindPeers(options.peers));
    return absl::OkStatus();
  }
  return InvalidArgument(
      "--peers: no programs; `tools/mp` builds them, or tools/peers/build FOLDER and ",
      "--peers=FOLDER");
}

// Into options.spec, what is named.
absl::Status Check(PerfOptions& options) {
  MP_RETURN_IF_ERROR(CheckBackendFlags(options.backend));
  PerfSpec& spec = options.spec;
  const std::optional<DType> dtype = DTypeFromName(options.dtype);
  if (!dtype.has_value()) return InvalidArgument("--dtype=", options.dtype, " is no dtype");
  spec.dtype = *dtype;
  spec.reduce_op = *ReduceOpFromName(options.reduce_op);
  spec.op = options.op == "allreduce" ? PerfOp::kAllReduce
            : options.op == "gather"  ? PerfOp::kGather
                                      : PerfOp::kAllGather;
  spec.by_rank = options.door == "rank";
  spec.at_least = absl::Seconds(options.seconds);
  if (spec.op == PerfOp::kAllReduce && !IsReducible(spec.dtype)) {
    return InvalidArgument("--dtype=", options.dtype, " can be gathered, not reduced");
  }
  if (spec.op == PerfOp::kAllReduce && spec.reduce_op == ReduceOp::kProd && options.ranks > 7) {
    return InvalidArgument("--redop=prod is exact up to 7 ranks");
  }
  if (spec.root >= options.ranks) {
    return InvalidArgument("--root=", spec.root, " of ", options.ranks, " ranks");
  }
  if (spec.batch > 1 && !spec.by_rank) {
    return InvalidArgument("--batch goes with --door=rank");
  }
  if (options.min_bytes > options.max_bytes) {
    return InvalidArgument("--min_bytes=", options.min_bytes,
                           " is above --max_bytes=", options.max_bytes);
  }
  if (options.compares) MP_RETURN_IF_ERROR(CheckPeers(options));
  const std::vector<int> gpus = GpusOf(options.backend);
  if (!gpus.empty() && gpus.size() != static_cast<size_t>(options.ranks)) {
    return InvalidArgument("--devices=", options.backend.devices, " names ", gpus.size(),
                           " GPUs for ", options.ranks, " ranks");
  }
  return absl::OkStatus();
}

nlohmann::json Json(const PerfTimes& times, const PerfRow& row, double factor) {
  const double algbw = static_cast<double>(row.bytes) / times.average / 1e9;
  return {{"time_us", times.average * 1e6}, {"algbw_gbs", algbw},
          {"busbw_gbs", algbw * factor},    {"wrong", times.wrong},
          {"min_us", times.min * 1e6},      {"median_us", times.median * 1e6},
          {"p99_us", times.p99 * 1e6}};
}

std::string Text(const PerfTimes& times, const PerfRow& row, double factor) {
  const double algbw = static_cast<double>(row.bytes) / times.average / 1e9;
  return absl::StrFormat(" %9.2f %7.2f %7.2f %6d %9.2f %9.2f %9.2f", times.average * 1e6, algbw,
                         algbw * factor, times.wrong, times.min * 1e6, times.median * 1e6,
                         times.p99 * 1e6);
}

void PrintHeader(const PerfOptions& options, const World& world, absl::string_view backend) {
  absl::PrintF("# %s on %s, %d ranks, door %s%s, batch %d\n", options.op, backend,
               world.world_size(), options.door, options.spec.overlap ? ", overlapped" : "",
               options.spec.batch);
  const std::string half = absl::StrFormat(" %9s %7s %7s %6s %9s %9s %9s", "time", "algbw", "busbw",
                                           "#wrong", "min", "median", "p99");
  absl::PrintF("#%47s %-62s  %s\n", "", "out of place", "in place");
  absl::PrintF("#%11s %12s %6s %6s %6s  %s %s\n", "size", "count", "type", "redop", "root", half,
               half);
  absl::PrintF("#%11s %12s %6s %6s %6s   %8s %7s %7s %6s %9s %9s %9s\n", "(B)", "(elements)", "",
               "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)");
}

absl::StatusOr<Comparison> CompareWithPeers(const PerfOptions& options, World& world,
                                            const std::vector<int64_t>& sizes) {
  PeerTask task;
  task.op = options.op;
  task.ranks = options.ranks;
  task.rows = options.spec.rows;
  if (options.seconds > 0) task.seconds = options.seconds;
  task.sizes = sizes;
  return Compare(world, options.spec, task, options.found_peers, options.rounds);
}

nlohmann::json Json(const Comparison& comparison) {
  nlohmann::json rows = nlohmann::json::array();
  for (const ComparedRow& row : comparison.rows) {
    nlohmann::json peers = nlohmann::json::object();
    for (const auto& [name, other] : row.peers) {
      peers[name] = {{"median_us", other.microseconds}, {"ratio", other.ratio}};
    }
    rows.push_back({{"size", row.bytes},
                    {"median_us", row.microseconds},
                    {"hop_us", row.hop_microseconds},
                    {"peers", peers}});
  }
  return {{"rows", rows}, {"failures", comparison.failures}};
}

absl::Status Run(const PerfOptions& options) {
  const PerfSpec& spec = options.spec;
  MP_ASSIGN_OR_RETURN(const Place place,
                      OpenPlace(options.backend, options.ranks, options.threads));
  WorldOptions world_options{.devices = place.devices, .rank_threads = spec.by_rank};
  MP_ASSIGN_OR_RETURN(std::unique_ptr<World> world, World::Create(place.backend, world_options));
  const bool reduces = spec.op == PerfOp::kAllReduce;
  const double factor = BusFactor(spec.op, options.ranks);
  if (!options.json) PrintHeader(options, *world, place.backend->name());
  int64_t wrong = 0;
  nlohmann::json rows = nlohmann::json::array();
  int64_t last = 0;
  std::vector<int64_t> sizes;
  for (int64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= options.factor) {
    MP_ASSIGN_OR_RETURN(const PerfRow row, Measure(*world, spec, bytes));
    wrong += row.out_of_place.wrong + row.in_place.wrong;
    if (row.bytes == last) continue;  // the smallest there is
    last = row.bytes;
    sizes.push_back(row.bytes);
    const std::string root = spec.op == PerfOp::kGather ? absl::StrCat(spec.root) : "-1";
    const std::string redop = reduces ? options.reduce_op : "none";
    if (options.json) {
      rows.push_back({{"size", row.bytes},
                      {"count", row.count},
                      {"type", options.dtype},
                      {"redop", redop},
                      {"root", reduces ? -1 : spec.root},
                      {"out_of_place", Json(row.out_of_place, row, factor)},
                      {"in_place", Json(row.in_place, row, factor)}});
    } else {
      absl::PrintF(" %11d %12d %6s %6s %6s  %s %s\n", row.bytes, row.count, options.dtype, redop,
                   root, Text(row.out_of_place, row, factor), Text(row.in_place, row, factor));
    }
  }
  Comparison comparison;
  if (options.compares) {
    MP_ASSIGN_OR_RETURN(comparison, CompareWithPeers(options, *world, sizes));
    if (!options.json) absl::PrintF("%s", ToText(comparison, options.rounds));
  }
  MP_RETURN_IF_ERROR(world->Close());
  if (options.json) {
    nlohmann::json all = {{"op", options.op},
                          {"backend", place.backend->name()},
                          {"ranks", options.ranks},
                          {"door", options.door},
                          {"batch", spec.batch},
                          {"overlap", spec.overlap},
                          {"rows", rows}};
    if (options.compares) all["peers"] = Json(comparison);
    absl::PrintF("%s\n", all.dump());
  }
  if (wrong == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(wrong, " elements are wrong"));
}

}  // namespace

Command AddPerf(CLI::App& app) {
  auto options = std::make_shared<PerfOptions>();
  CLI::App* perf = app.add_subcommand("perf", kDescription);
  perf->footer(kFooter);
  perf->add_option("--op", options->op, "allreduce, gather or allgather")
      ->check(CLI::IsMember({"allreduce", "gather", "allgather"}))
      ->type_name("NAME")
      ->capture_default_str();
  perf->add_option("--redop", options->reduce_op, "sum, prod, min or max")
      ->check(CLI::IsMember({"sum", "prod", "min", "max"}))
      ->type_name("NAME")
      ->capture_default_str();
  perf->add_option("--dtype", options->dtype, "f32, bf16, ...")
      ->type_name("NAME")
      ->capture_default_str();
  perf->add_option("--ranks", options->ranks, "How many ranks")
      ->check(CLI::Range(2, 64))
      ->type_name("N")
      ->capture_default_str();
  perf->add_option("--root", options->spec.root, "Of gather: who gets the result")
      ->check(CLI::Range(0, 63))
      ->type_name("N")
      ->capture_default_str();
  perf->add_option("--rows", options->spec.rows, "Of gathers: rows of the tensors, at most")
      ->check(CLI::Range(1, 1 << 30))
      ->type_name("N")
      ->capture_default_str();
  perf->add_flag("--uneven", options->spec.uneven, "Of gathers: shards as 1 : 2 : 3 : ...");
  const auto add_size = [&](const char* name, const char* text, int64_t& to) {
    perf->add_option(name, to, text)
        ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
        ->type_name("SIZE")
        ->capture_default_str();
  };
  add_size("--min_bytes", "The first size, like 8 or 64K", options->min_bytes);
  add_size("--max_bytes", "No size above this", options->max_bytes);
  perf->add_option("--factor", options->factor, "From size to size")
      ->check(CLI::Range(2, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  perf->add_option("--warmup", options->spec.warmup, "Operations before those that are timed")
      ->check(CLI::Range(0, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  perf->add_option("--iterations", options->spec.iterations, "Operations that are timed, at least")
      ->check(CLI::Range(1, 1 << 30))
      ->type_name("N")
      ->capture_default_str();
  perf->add_option("--seconds", options->seconds, "Time operations for at least so long")
      ->check(CLI::Range(0.0, 3600.0))
      ->type_name("X");
  perf->add_option("--door", options->door, "rank: each rank calls; call: one thread for all")
      ->check(CLI::IsMember({"rank", "call"}))
      ->type_name("NAME")
      ->capture_default_str();
  perf->add_flag("--overlap", options->spec.overlap, "On the comm streams, waited for by an event");
  perf->add_option("--batch", options->spec.batch, "Operations of one call")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->capture_default_str();
  AddBackendFlags(*perf, options->backend);
  perf->add_option("--threads", options->threads,
                   "Threads of the host in all; one a core by default")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  CLI::Option* peers =
      perf->add_option("--peers", options->peers,
                       "Compare with the programs in this folder; built ones by default")
          ->type_name("FOLDER")
          ->expected(0, 1);
  perf->add_option("--rounds", options->rounds, "Of --peers: turns of mp and each of them")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  perf->add_flag("--json", options->json, "Print the result as one JSON object");
  return {perf,
          [options, peers] {
            options->compares = peers->count() > 0;
            return Check(*options);
          },
          [options] { return Run(*options); }};
}

}  // namespace mp::command
