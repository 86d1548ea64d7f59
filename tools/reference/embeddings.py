"""Makes the embeddings that tests/model/reference_test.cc compares with.

    python3 tools/reference/embeddings.py MODEL_FOLDER tests/model/testdata

Needs torch, transformers and numpy. Writes sentences.txt, one text a line, and embeddings.npy,
f32 [lines, hidden]: the mean over the tokens of BertModel's last hidden state, computed in double
precision, scaled to length 1, each text alone and cut at 256 tokens.
"""

import json
import os
import sys

import numpy
import torch
import transformers

LONG = (
    "Tensor parallelism splits the weights of one layer over several devices, so that each of them computes "
    "a part of the result, and the parts are joined or summed before the next layer begins. "
)

SENTENCES = [
    "",
    "a",
    "Hello",
    "The quick brown fox jumps over the lazy dog.",
    "That is a happy person",
    "That is a very happy person!",
    "How do I reset my password?",
    "A man is eating food; a man eats a piece of bread, and nobody else is there.",
    "Die Würde des Menschen ist unantastbar.",
    "Größere Änderungen an der Straße über München",
    "Liberté, égalité, fraternité",
    "¿Dónde está la biblioteca? ¡Mañana será otro día!",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Η γρήγορη αλεπού πηδά πάνω από το τεμπέλικο σκυλί.",
    "吾輩は猫である。名前はまだ無い。",
    "人人生而自由,在尊严和权利上一律平等。",
    "모든 인간은 태어날 때부터 자유로우며",
    "مرحبا بالعالم، كيف حالك اليوم؟",
    "שלום עולם",
    "नमस्ते दुनिया, आप कैसे हैं?",
    "สวัสดีชาวโลก",
    "Emoji \U0001f600 \U0001f468‍\U0001f469‍\U0001f467 and numbers 3.14159, 2^31 = 2147483648",
    "int main() { return printf(\"%d\\n\", x[3] << 2); }  // code",
    "pneumonoultramicroscopicsilicovolcanoconiosis " * 3,
    LONG,
    LONG * 2,
    LONG * 4,
    LONG * 6,
    LONG * 12,  # cut at the limit
    "word " * 254,  # exactly the limit
    "word " * 253,
    "word " * 300,
]


def main(folder, target):
    config = json.load(open(os.path.join(folder, "sentence_bert_config.json")))
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").double().eval()
    rows, lengths = [], []
    with torch.no_grad():
        for text in SENTENCES:
            tokens = tokenizer(text, truncation=True, max_length=config["max_seq_length"], return_tensors="pt")
            lengths.append(tokens["input_ids"].shape[1])
            row = model(**tokens).last_hidden_state[0].mean(dim=0)
            rows.append((row / row.norm()).numpy())
    with open(os.path.join(target, "sentences.txt"), "w", encoding="utf-8") as file:
        file.writelines(text.strip() + "\n" for text in SENTENCES)
    numpy.save(os.path.join(target, "embeddings.npy"), numpy.array(rows, dtype=numpy.float32))
    print(len(rows), "sentences of", lengths, "tokens")


main(*sys.argv[1:])
