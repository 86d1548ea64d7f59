"""How many sentences a second PyTorch embeds, beside `mp embed --json`.

    python3 tools/reference/speed.py MODEL_FOLDER LINES.txt [THREADS]

Needs torch and transformers. Batches of 32 sorted by length, f32, sdpa attention, the second of two runs.
"""

import sys
import time

import torch
import transformers


def main(folder, path, threads="2"):
    torch.set_num_threads(int(threads))
    lines = open(path, encoding="utf-8").read().splitlines()
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    model = transformers.BertModel.from_pretrained(folder).eval()
    for _ in range(2):
        begin = time.time()
        order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
        with torch.inference_mode():
            for i in range(0, len(order), 32):
                batch = [lines[j] for j in order[i : i + 32]]
                tokens = tokenizer(batch, truncation=True, max_length=256, padding=True, return_tensors="pt")
                hidden = model(**tokens).last_hidden_state
                mask = tokens["attention_mask"].unsqueeze(-1)
                torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1))
        seconds = time.time() - begin
    print(f"{len(lines)} sentences in {seconds:.3f} s: {len(lines) / seconds:.0f} sentences/s with {threads} threads")


main(*sys.argv[1:])
