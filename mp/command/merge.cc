#include "mp/command/merge.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/command/backend_flag.h"
#include "mp/command/execute.h"
#include "mp/command/progress.h"
#include "mp/command/report.h"
#include "mp/files/printable.h"
#include "mp/world.h"

namespace mp::command {
namespace {

using files::Printable;
using files::TensorFile;
using files::TensorFileWriter;

// What is so small is done before a bar could be read.
constexpr int64_t kBytesWithBar = 64 << 20;
constexpr size_t kTensorsWithBar = 100;

absl::string_view Extension(const std::string& path) {
  const auto format = files::FormatOf(path);
  if (!format.has_value()) return "";
  return *format == files::FileFormat::kNpy ? ".npy" : ".safetensors";
}

std::string OutputPath(const MergeOptions& options, size_t rank) {
  if (!options.all) return options.out;
  return absl::StrCat(options.out, options.out.back() == '/' ? "" : "/", "rank", rank,
                      Extension(options.files[0]));
}

size_t OutputCount(const MergeOptions& options) { return options.all ? options.files.size() : 1; }

// The folder of --all, made where it is missing; removed again unless it is kept.
class OutputFolder {
 public:
  ~OutputFolder() {
    if (!made_.empty()) rmdir(made_.c_str());
  }
  absl::Status Prepare(const std::string& path) {
    if (mkdir(path.c_str(), 0777) == 0) {
      made_ = path;
      return absl::OkStatus();
    }
    const int error = errno;
    struct stat info;
    if (error == EEXIST && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return absl::OkStatus();
    }
    if (error == EEXIST) {
      return InvalidArgument(Printable(path),
                             ": is no folder; --all writes a file for each rank "
                             "into the folder --out");
    }
    return absl::ErrnoToStatus(error, absl::StrCat(Printable(path), ": cannot be made a folder"));
  }
  void Keep() { made_.clear(); }

 private:
  std::string made_;
};

absl::StatusOr<std::vector<TensorFile>> OpenInputs(const MergeOptions& options) {
  std::vector<TensorFile> inputs;
  for (const std::string& path : options.files) {
    absl::StatusOr<TensorFile> file = TensorFile::Open(path);
    if (!file.ok()) {
      return absl::Status(file.status().code(),
                          absl::StrCat("rank ", inputs.size(), ": ", file.status().message()));
    }
    inputs.push_back(*std::move(file));
  }
  return inputs;
}

absl::Status CheckNotAnInput(const std::string& path, const std::vector<TensorFile>& inputs) {
  const auto id = files::FileIdOf(path);
  for (size_t rank = 0; id.has_value() && rank < inputs.size(); ++rank) {
    if (*id != inputs[rank].id()) continue;
    return InvalidArgument(Printable(path), ": the output would replace the input of rank ", rank,
                           " (", Printable(inputs[rank].path()), "); choose another --out");
  }
  return absl::OkStatus();
}

// What all files say alike.
files::Metadata CommonMetadata(const std::vector<TensorFile>& inputs) {
  files::Metadata common = inputs[0].metadata();
  for (const TensorFile& file : inputs) {
    std::erase_if(common, [&](const auto& pair) {
      const auto found = file.metadata().find(pair.first);
      return found == file.metadata().end() || found->second != pair.second;
    });
  }
  return common;
}

absl::Status CreateOutputs(const MergeOptions& options, const std::vector<TensorFile>& inputs,
                           Job& job) {
  std::vector<files::TensorEntry> entries;
  for (const Step& step : job.steps) entries.push_back({step.name, step.dtype, step.shape});
  const files::Metadata metadata = CommonMetadata(inputs);
  for (size_t rank = 0; rank < OutputCount(options); ++rank) {
    const std::string path = OutputPath(options, rank);
    MP_RETURN_IF_ERROR(CheckNotAnInput(path, inputs));
    MP_ASSIGN_OR_RETURN(
        TensorFileWriter output,
        TensorFileWriter::Create(path, entries, metadata, {.force = options.force}));
    job.outputs.push_back(std::move(output));
  }
  return absl::OkStatus();
}

// All or none.
absl::Status CommitOutputs(Job& job) {
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    const absl::Status status = job.outputs[i].Commit();
    if (status.ok()) continue;
    while (i-- > 0) unlink(job.outputs[i].path().c_str());
    return status;
  }
  return absl::OkStatus();
}

int64_t TotalBytes(const Job& job) {
  int64_t bytes = 0;
  for (const Step& step : job.steps) bytes += step.size_bytes();
  return bytes;
}

absl::Status RunOn(const Place& place, const std::string& command, const MergeOptions& options,
                   const Job& job) {
  // A rank may well wait long for one that reads from a slow disk, and none can be missing.
  MP_ASSIGN_OR_RETURN(std::unique_ptr<World> world,
                      World::Create(place.backend, {.devices = place.devices,
                                                    .absence_timeout = absl::InfiniteDuration()}));
  const int64_t bytes = TotalBytes(job);
  Progress progress(
      command, bytes, absl::StrFormat("%.0f MB", static_cast<double>(bytes) / 1e6),
      !options.quiet && (bytes >= kBytesWithBar || job.steps.size() >= kTensorsWithBar));
  MP_RETURN_IF_ERROR(Execute(job, *world, progress));
  return world->Close();
}

// What to do where the GPUs do not do it.
absl::Status WithAdvice(const absl::Status& status) {
  switch (KindOf(status)) {
    case ErrorKind::kUnsupported:
    case ErrorKind::kDeviceError:
    case ErrorKind::kDeviceLost:
      return MakeError(KindOf(status),
                       absl::StrCat(status.message(), "; --backend=host does without GPUs"));
    default:
      return status;
  }
}

// The name of the backend that did it.
absl::StatusOr<std::string> RunJob(const std::string& command, const MergeOptions& options,
                                   const Job& job) {
  const auto ranks = static_cast<int>(options.files.size());
  MP_ASSIGN_OR_RETURN(const Place place, OpenPlace(options.backend, ranks, options.threads));
  const absl::Status status = RunOn(place, command, options, job);
  const std::string name(place.backend->name());
  if (!status.ok()) return name == "host" ? status : WithAdvice(status);
  return name;
}

}  // namespace

void AddMergeFlags(CLI::App& app, MergeOptions& options) {
  app.add_option("FILES", options.files, "One .npy or .safetensors file for each rank, in order");
  app.add_option("--out", options.out, "The file to write; with --all a folder")->type_name("PATH");
  app.add_flag("--all", options.all, "Write every rank's result, as rank0.npy ... in --out");
  app.add_flag("--force", options.force, "Replace files that exist");
  AddBackendFlags(app, options.backend);
  app.add_option("--ranks", options.ranks, "How many ranks; only to check the number of files")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  app.add_option("--threads", options.threads, "Threads of the host in all; one a core by default")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  app.add_flag("--json", options.json, "Print the result as one JSON object");
  app.add_flag("--quiet", options.quiet, "Print nothing but errors");
}

absl::Status CheckMergeFlags(const MergeOptions& options) {
  if (options.files.empty()) return InvalidArgument("no files are given; one file is one rank's");
  if (options.out.empty()) return InvalidArgument("--out=PATH is missing: where to write");
  if (options.json && options.quiet)
    return InvalidArgument("--json and --quiet exclude each other");
  const auto count = static_cast<int>(options.files.size());
  if (options.ranks.value_or(count) != count) {
    return InvalidArgument("--ranks=", *options.ranks, " and ", count, " file",
                           count == 1 ? "" : "s", " do not go together: one file is one rank's");
  }
  MP_RETURN_IF_ERROR(CheckBackendFlags(options.backend));
  const size_t gpus = GpusOf(options.backend).size();
  if (gpus != 0 && gpus != options.files.size()) {
    return InvalidArgument("--devices=", options.backend.devices, " and ", count, " file",
                           count == 1 ? "" : "s", " do not go together: each rank needs a GPU");
  }
  const absl::string_view first = Extension(options.files[0]);
  for (const std::string& path : options.files) {
    const absl::string_view extension = Extension(path);
    if (extension.empty()) {
      return InvalidArgument(Printable(path),
                             ": the name ends neither in .npy nor in .safetensors");
    }
    if (extension != first) {
      return InvalidArgument(Printable(options.files[0]), " and ", Printable(path),
                             " are of two formats; all files must be of one");
    }
  }
  if (options.all && !Extension(options.out).empty()) {
    return InvalidArgument("--out=", Printable(options.out),
                           " is named like a file; --all writes a ",
                           "file for each rank into the folder --out");
  }
  if (!options.all && Extension(options.out) != first) {
    return InvalidArgument("--out=", Printable(options.out), ": the name must end in ", first,
                           " as those of the inputs do");
  }
  return absl::OkStatus();
}

absl::Status Merge(const std::string& command, const MergeOptions& options, const Planner& plan) {
  sync::Clock& clock = sync::Clock::Steady();
  const absl::Duration begin = clock.Now();
  MP_ASSIGN_OR_RETURN(const std::vector<TensorFile> inputs, OpenInputs(options));
  OutputFolder folder;  // goes after the files in it
  Job job{.all = options.all, .root = options.root};
  MP_ASSIGN_OR_RETURN(job.steps, plan(inputs));
  if (options.all) MP_RETURN_IF_ERROR(folder.Prepare(options.out));
  MP_RETURN_IF_ERROR(CreateOutputs(options, inputs, job));
  MP_RETURN_IF_ERROR(CheckSame(inputs, job.steps));
  MP_ASSIGN_OR_RETURN(const std::string backend, RunJob(command, options, job));
  MP_RETURN_IF_ERROR(CommitOutputs(job));
  folder.Keep();
  const Report report{.command = command,
                      .backend = backend,
                      .ranks = static_cast<int>(options.files.size()),
                      .elapsed = clock.Now() - begin};
  const std::string text = options.json    ? ReportJson(report, job)
                           : options.quiet ? ""
                                           : ReportText(report, job);
  std::fwrite(text.data(), 1, text.size(), stdout);  // main.cc looks for errors of stdout
  return absl::OkStatus();
}

}  // namespace mp::command
