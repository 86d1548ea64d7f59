// The folder of a model, one of whose files is the input behind its first byte, which says which.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "mp/model/checkpoint.h"
#include "mp/model/config.h"
#include "mp/model/text/tokenizer.h"
#include "tests/files/samples.h"
#include "tests/fuzz/reader.h"
#include "tests/model/tiny_model.h"

namespace mp::fuzz {
namespace {

struct File {
  const char* name;
  std::string bytes;
};

constexpr char kTokenizerJson[] = R"({
  "added_tokens": [
    {"id": 0, "content": "[PAD]", "normalized": false, "single_word": false},
    {"id": 1, "content": "[UNK]", "normalized": false, "single_word": false},
    {"id": 9, "content": "<new>", "normalized": false, "single_word": false}],
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                 "strip_accents": null, "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                       "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "b": 5, "##b": 6,
                      "##c": 7, "!": 8}}})";

constexpr char kTokenizerConfig[] = R"({"do_lower_case": true, "strip_accents": null,
  "tokenize_chinese_chars": true, "model_max_length": 512, "tokenizer_class": "BertTokenizer",
  "unk_token": "[UNK]", "cls_token": {"content": "[CLS]"}, "never_split": [],
  "added_tokens_decoder": {"0": {"content": "[PAD]"}}})";

// A folder of this process with a model that is sound.
class Folder {
 public:
  Folder() {
    for (const char* base : {"/dev/shm", "/tmp"}) {
      if (access(base, W_OK) == 0) path_ = absl::StrCat(base, "/mp_fuzz_", getpid());
      if (!path_.empty()) break;
    }
    const model::TinyModel tiny = model::TinyModel::Make(model::TinyConfig(), 1);
    std::filesystem::create_directories(path_);
    tiny.Write(path_);
    files_ = {{"config.json", ""},
              {"model.safetensors", ""},
              {"vocab.txt", ""},
              {"sentence_bert_config.json", ""},
              {"1_Pooling/config.json", ""}};
    for (File& file : files_) {
      std::ifstream stream(absl::StrCat(path_, "/", file.name), std::ios::binary);
      file.bytes.assign(std::istreambuf_iterator<char>(stream), {});
    }
    files_.push_back({"tokenizer_config.json", kTokenizerConfig});
    files_.push_back({"modules.json", R"([{"idx": 0, "path": "", "type": "a.Transformer"},
      {"path": "1_Pooling", "type": "a.Pooling"}, {"path": "2", "type": "a.Normalize"}])"});
    files_.push_back({"tokenizer.json", kTokenizerJson});
    for (const File& file : files_) Write(file.name, file.bytes);
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  const std::vector<File>& files() const { return files_; }

  void Write(const char* name, absl::string_view bytes) const {
    std::ofstream stream(absl::StrCat(path_, "/", name), std::ios::binary | std::ios::trunc);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  void Remove(const char* name) const { std::filesystem::remove(absl::StrCat(path_, "/", name)); }

 private:
  std::string path_;
  std::vector<File> files_;
};

Folder& TheFolder() {
  static Folder folder;
  return folder;
}

// Everything that is made of a folder before the weights are looked at.
std::string LoadAll(const std::string& path) {
  const auto config = model::LoadConfig(path);
  const auto tokenizer = model::Tokenizer::Load(path);
  if (tokenizer.ok()) {
    for (const char* text : {"ab abc! [PAD]<new>b", "\xc3\xa9\xff\xe4\xb8\xad", ""}) {
      for (const int32_t id : tokenizer->Encode(text, 9)) {
        if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
      }
    }
  }
  if (!tokenizer.ok()) return std::string(tokenizer.status().message());
  if (!config.ok()) return std::string(config.status().message());
  const auto checkpoint = model::Checkpoint::Open(path, *config);
  return checkpoint.ok() ? "OK" : std::string(checkpoint.status().message());
}

}  // namespace

std::string Read(absl::string_view input) {
  if (input.empty()) return "nothing";
  const Folder& folder = TheFolder();
  const auto which = static_cast<unsigned char>(input[0]);
  const File& file = folder.files()[which % folder.files().size()];
  // The vocabulary is read where there is no tokenizer.json.
  const bool is_vocabulary = absl::string_view(file.name) == "vocab.txt" ||
                             absl::string_view(file.name) == "tokenizer_config.json";
  if (is_vocabulary) folder.Remove("tokenizer.json");
  folder.Write(file.name, input.substr(1));
  const std::string told = LoadAll(folder.path());
  folder.Write(file.name, file.bytes);
  if (is_vocabulary) folder.Write("tokenizer.json", kTokenizerJson);
  return absl::StrCat(file.name, ": ", told);
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (size_t i = 0; i < TheFolder().files().size(); ++i) {
    seeds.push_back(
        absl::StrCat(std::string(1, static_cast<char>(i)), TheFolder().files()[i].bytes));
  }
  return seeds;
}

std::vector<std::string> Pieces() {
  return {"null",        "true",
          "false",       "\"\"",
          "{}",          "[]",
          "1.5",         "-1",
          "\"a\"",       "\n",
          "\r\n",        "##",
          "[UNK]",       "\"type\"",
          "\"id\"",      "\"ids\"",
          "\\u0000",     "\\ud800",
          "\"content\"", "\"vocab\"",
          "1e999",       "1048576",
          ":",           ",",
          "\"path\"",    "\"a.Pooling\"",
          "..",          "/dev/zero",
          "1000",        "2147483648"};
}

}  // namespace mp::fuzz
