#include "tests/model/text/small.h"

#include "absl/strings/str_split.h"

namespace mp::model {

using Json = nlohmann::json;

std::string SmallVocabTxt() {
  return "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nun\n##h\nhi\nable\na\n##ble\n,\n\u4e2d\n##"
         "\u00e9\n";
}

Json SmallTokenizerJson() {
  Json vocab, added = Json::array();
  const std::string text = SmallVocabTxt();
  for (const absl::string_view token : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const size_t id = vocab.size();
    vocab[std::string(token)] = id;
    if (id > 4) continue;
    added.push_back({{"id", id},
                     {"content", std::string(token)},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  Json file = Json::parse(R"({
    "version": "1.0", "truncation": {"max_length": 4}, "padding": {"pad_id": 0},
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                   "strip_accents": null, "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {
      "type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                 {"Sequence": {"id": "A", "type_id": 0}},
                 {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
      "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                         "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
    "decoder": {"type": "WordPiece"},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100}})");
  file["model"]["vocab"] = std::move(vocab);
  file["added_tokens"] = std::move(added);
  return file;
}

}  // namespace mp::model
