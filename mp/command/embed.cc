// mp embed: sentence embeddings of lines of text, tensor-parallel over the ranks.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/chrome_trace.h"
#include "mp/command/backend_flag.h"
#include "mp/command/command.h"
#include "mp/command/embed_input.h"
#include "mp/command/embed_report.h"
#include "mp/command/progress.h"
#include "mp/files/mapped_file.h"
#include "mp/files/output_file.h"
#include "mp/files/printable.h"
#include "mp/files/tensor_file.h"
#include "mp/host/backend.h"
#include "mp/model/config.h"
#include "mp/model/embedder.h"

namespace mp::command {
namespace {

using files::Printable;

constexpr char kDescription[] = "Turns lines of text into sentence embeddings.";

constexpr char kFooter[] =
    "The encoder is split over the ranks: attention heads and feed-forward columns, summed by\n"
    "AllReduce; the embeddings are gathered on rank 0.  A model is a folder with config.json,\n"
    "tokenizer.json or vocab.txt, and model.safetensors, of the BERT family.\n"
    "Every line gives one embedding of length 1: an empty one too, a long one of its beginning,\n"
    "and bytes that are no UTF-8 are left out; the closing line on stderr counts them.\n"
    "\n"
    "Examples:\n"
    "  mp embed --out=rows.npy lines.txt\n"
    "  mp embed --query='resetting a password' --top=3 questions.txt\n"
    "  mp embed --ranks=4 --trace=trace.json --out=rows.npy lines.txt\n"
    "  echo 'A happy person' | mp embed";

struct EmbedOptions {
  std::string file;
  std::string model;
  std::string out;
  std::string query;
  std::string trace;
  std::string backend = "auto";
  int top = 5;
  std::optional<int> ranks;
  int threads = 0;
  int64_t batch_tokens = 1024;
  bool force = false;
  bool json = false;
  bool quiet = false;
  std::vector<const CLI::Option*> texts;  // those that are nothing when they are empty
  const CLI::Option* top_given = nullptr;
};

// Where tools/mp puts the model that it fetches.
std::string DefaultModel() {
  if (const char* folder = std::getenv("MP_MODEL"); folder != nullptr && *folder != '\0') {
    return folder;
  }
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base = cache != nullptr && *cache == '/' ? cache
                           : home != nullptr                 ? absl::StrCat(home, "/.cache")
                                                             : "";
  return absl::StrCat(base, "/mp/models/all-MiniLM-L6-v2");
}

int Threads(const EmbedOptions& options) {
  return options.threads > 0 ? options.threads : sync::CoreCount();
}

int Ranks(const EmbedOptions& options, const model::EncoderConfig& config) {
  return options.ranks.value_or(
      static_cast<int>(std::min<int64_t>(Threads(options), model::MostRanks(config))));
}

// The folder that a file is in, and its name there: what two paths to one file have in common,
// also where there is no such file yet.
std::pair<std::optional<files::FileId>, std::string> PlaceOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {files::FileIdOf("."), path};
  return {files::FileIdOf(path.substr(0, slash + 1)), path.substr(slash + 1)};
}

bool AreOneFile(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  const auto first = files::FileIdOf(a), second = files::FileIdOf(b);
  const auto first_place = PlaceOf(a), second_place = PlaceOf(b);
  return a == b || (first.has_value() && first == second) ||
         (first_place.first.has_value() && first_place == second_place);
}

absl::Status CheckPaths(const EmbedOptions& options) {
  if (!options.out.empty() && !absl::EndsWith(options.out, ".npy")) {
    return InvalidArgument("--out=", Printable(options.out), ": the name must end in .npy");
  }
  if (AreOneFile(options.out, options.trace)) {
    return InvalidArgument("--out=", Printable(options.out),
                           " and --trace=", Printable(options.trace), " are one file");
  }
  for (const std::string& path : {options.out, options.trace}) {
    if (!AreOneFile(path, options.file)) continue;
    return InvalidArgument(Printable(path), " would replace the input ", Printable(options.file));
  }
  return absl::OkStatus();
}

absl::Status Check(const EmbedOptions& options) {
  if (options.json && options.quiet) {
    return InvalidArgument("--json and --quiet exclude each other");
  }
  for (const CLI::Option* option : options.texts) {
    if (option->count() > 0 && option->as<std::string>().empty()) {
      return InvalidArgument(option->get_name(), " is given, and empty");
    }
  }
  if (options.top_given->count() > 0 && options.query.empty()) {
    return InvalidArgument("--top is for the lines nearest to --query, which is not given");
  }
  MP_RETURN_IF_ERROR(CheckPaths(options));
  // A model that cannot be read is no wrong usage: the work finds it.
  const auto config = model::LoadConfig(options.model);
  if (!config.ok() || !options.ranks.has_value()) return absl::OkStatus();
  const absl::Status fits = model::CheckRanks(*config, *options.ranks);
  return fits.ok() ? fits : InvalidArgument("--ranks=", *options.ranks, ": ", fits.message());
}

// Embeddings that are kept in memory, or in the file --out while it has no name yet.
class Rows {
 public:
  static absl::StatusOr<Rows> Create(const EmbedOptions& options, size_t lines, int64_t hidden) {
    const Shape shape = {static_cast<int64_t>(lines), hidden};
    Rows rows;
    if (options.out.empty()) {
      rows.memory_.resize(static_cast<size_t>(shape.elements()));
      rows.view_ = TensorView(rows.memory_.data(), DType::kF32, shape);
      return rows;
    }
    MP_ASSIGN_OR_RETURN(rows.file_,
                        files::TensorFileWriter::Create(options.out, {{"", DType::kF32, shape}}, {},
                                                        {.force = options.force}));
    rows.view_ = rows.file_->view(0);
    return rows;
  }
  const TensorView& view() const { return view_; }
  absl::Span<const float> values() const {
    return {static_cast<const float*>(view_.data()), static_cast<size_t>(view_.shape().elements())};
  }
  absl::Status Commit() { return file_.has_value() ? file_->Commit() : absl::OkStatus(); }

 private:
  std::vector<float> memory_;
  std::optional<files::TensorFileWriter> file_;
  TensorView view_;
};

absl::Status WriteTrace(const EmbedOptions& options, const Trace& trace) {
  const std::string text = ChromeTraceText(trace);
  MP_ASSIGN_OR_RETURN(auto file,
                      files::OutputFile::Create(options.trace, static_cast<int64_t>(text.size()),
                                                {.force = options.force}));
  std::memcpy(file.data(), text.data(), text.size());
  return file.Commit();
}

// Both files or none.
absl::Status Commit(const EmbedOptions& options, const Trace& trace, Rows& rows) {
  if (options.trace.empty()) return rows.Commit();
  MP_RETURN_IF_ERROR(WriteTrace(options, trace));
  const absl::Status status = rows.Commit();
  if (!status.ok()) unlink(options.trace.c_str());
  return status;
}

TraceTotals SumOfRanks(const Trace& trace, int ranks) {
  TraceTotals sum;
  for (int rank = 0; rank < ranks; ++rank) sum += trace.TotalsOf(rank);
  return sum;
}

// An average rank's, of what was added to `before`.
TraceTotals MeanOfRanks(const Trace& trace, int ranks, const TraceTotals& before) {
  const TraceTotals sum = SumOfRanks(trace, ranks);
  return {(sum.compute - before.compute) / ranks, (sum.all_reduce - before.all_reduce) / ranks,
          (sum.gather - before.gather) / ranks, (sum.other - before.other) / ranks};
}

// What goes to stdout.
std::string ResultText(const EmbedOptions& options, const EmbedReport& report,
                       const EncodedLines& encoded, const std::vector<absl::string_view>& lines,
                       const Rows& rows, const std::vector<float>& query) {
  std::optional<std::vector<Nearest>> nearest;
  if (!query.empty()) {
    nearest = FindNearest(rows.values(), query, static_cast<size_t>(options.top));
  }
  if (options.json) {
    return EmbedReportJson(report, encoded, lines, options.out,
                           nearest.has_value() ? &*nearest : nullptr, rows.values());
  }
  if (nearest.has_value()) return NearestText(*nearest, lines);
  return options.out.empty() ? RowsText(rows.values(), lines) : "";
}

absl::Status Run(const EmbedOptions& options) {
  if (options.backend == "cuda") {
    return Unsupported(
        "--backend=cuda: the kernels of mp embed run on the host only for now; --backend=host "
        "(or auto, which means host here) works everywhere");
  }
  MP_ASSIGN_OR_RETURN(const model::EncoderConfig config, model::LoadConfig(options.model));
  for (const std::string& path : {options.out, options.trace}) {
    if (path.empty()) continue;
    MP_RETURN_IF_ERROR(files::OutputFile::Check(path, {.force = options.force}));
  }
  MP_ASSIGN_OR_RETURN(const std::string text, ReadAll(options.file));
  const std::vector<absl::string_view> lines = SplitLines(text);
  MP_ASSIGN_OR_RETURN(Rows rows, Rows::Create(options, lines.size(), config.hidden));

  EmbedReport report{
      .model = options.model, .ranks = Ranks(options, config), .threads = Threads(options)};
  sync::LimitCores(report.threads);
  sync::Clock& clock = sync::Clock::Steady();
  absl::Duration begin = clock.Now();
  const auto trace = std::make_shared<Trace>(TraceOptions{.keep_spans = !options.trace.empty()});
  MP_ASSIGN_OR_RETURN(std::shared_ptr<Backend> backend,
                      host::NewBackend({.devices = report.ranks, .threads = report.threads}));
  MP_ASSIGN_OR_RETURN(auto embedder, model::Embedder::Create(std::move(backend), options.model,
                                                             {.ranks = report.ranks,
                                                              .threads = report.threads,
                                                              .batch_tokens = options.batch_tokens,
                                                              .trace = trace}));
  report.load = clock.Now() - begin;

  const auto max_tokens = static_cast<int>(config.max_tokens);
  std::vector<float> query;
  if (!options.query.empty()) {
    query.resize(static_cast<size_t>(config.hidden));
    MP_RETURN_IF_ERROR(embedder->Embed({embedder->tokenizer().Encode(options.query, max_tokens)},
                                       TensorView(query.data(), DType::kF32, {1, config.hidden})));
  }
  const TraceTotals before = SumOfRanks(*trace, report.ranks);
  begin = clock.Now();
  const EncodedLines encoded = EncodeLines(embedder->tokenizer(), lines, max_tokens);
  {
    Progress progress("embed", encoded.tokens, absl::StrCat(lines.size(), " lines"),
                      !options.quiet && encoded.tokens > 4 * options.batch_tokens);
    MP_RETURN_IF_ERROR(embedder->Embed(
        encoded.ids, rows.view(),
        [&](const model::TokenBatch& batch) { progress.Add(batch.token_count()); }));
  }
  report.elapsed = clock.Now() - begin;
  report.mean_of_ranks = MeanOfRanks(*trace, report.ranks, before);
  const std::string result = ResultText(options, report, encoded, lines, rows, query);
  MP_RETURN_IF_ERROR(Commit(options, *trace, rows));
  std::fwrite(result.data(), 1, result.size(), stdout);  // main.cc looks for errors of stdout
  const bool printed = std::fflush(stdout) == 0;
  if (!printed || options.json || options.quiet) return absl::OkStatus();
  const std::string closing = EmbedReportText(report, encoded);
  std::fwrite(closing.data(), 1, closing.size(), stderr);
  return absl::OkStatus();
}

}  // namespace

Command AddEmbed(CLI::App& app) {
  auto options = std::make_shared<EmbedOptions>();
  options->model = DefaultModel();
  CLI::App* embed = app.add_subcommand("embed", kDescription);
  embed->footer(kFooter);
  const auto text = [&](const char* name, std::string& value, const char* description) {
    CLI::Option* option = embed->add_option(name, value, description);
    options->texts.push_back(option);
    return option;
  };
  text("FILE", options->file, "Lines of UTF-8 text; stdin by default, or for -");
  text("--model", options->model, "The folder of the model")
      ->type_name("DIR")
      ->capture_default_str();
  embed
      ->add_option("--ranks", options->ranks,
                   "Ranks that share the model; by default one a thread, at most one a head")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  embed->add_option("--threads", options->threads, "Host cores in all; all by default")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  embed->add_option("--batch", options->batch_tokens, "Tokens that go through the model at once")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("TOKENS")
      ->capture_default_str();
  text("--out", options->out, "Write the embeddings, f32 [lines, hidden], to this .npy")
      ->type_name("FILE");
  text("--query", options->query, "Print the lines nearest to this text")->type_name("TEXT");
  options->top_given = embed->add_option("--top", options->top, "How many of them");
  embed->get_option("--top")->check(CLI::Range(1, 1 << 30))->type_name("K")->capture_default_str();
  text("--trace", options->trace, "Write what ran when, as Chrome trace events, to this file")
      ->type_name("FILE");
  embed->add_flag("--force", options->force, "Replace files that exist");
  AddBackendFlag(*embed, "Where to run: host, which auto means too; its kernels are the host's",
                 options->backend);
  embed->add_flag("--json", options->json, "Print the result as one JSON object");
  embed->add_flag("--quiet", options->quiet, "No progress and no closing line on stderr");
  return {embed, [options] { return Check(*options); }, [options] { return Run(*options); }};
}

}  // namespace mp::command
