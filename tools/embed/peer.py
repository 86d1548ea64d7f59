"""What the peers of `mp embed` share: lines in, batches as mp makes them, one line of JSON out.

    python3 PEER.py MODEL_FOLDER LINES OUT.npy THREADS BATCH

BATCH: `mp` for mp's own batches, at most 1,024 tokens of texts sorted by length, or a number of
texts, sorted by length too. A peer pads a batch to its longest text, as its library wants it.
Each peer embeds all lines twice, and the second time counts: mp's only pass is its first.
"""

import json
import resource
import sys
import time

import numpy
import tokenizers

LONGEST = 256
MOST_TOKENS = 1024


def batches_of(lengths, batch):
    """Lists of indices, longest text first."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    if batch != "mp":
        return [order[i : i + int(batch)] for i in range(0, len(order), int(batch))]
    batches, tokens = [], MOST_TOKENS
    for i in order:
        if tokens + lengths[i] > MOST_TOKENS:
            batches.append([])
            tokens = 0
        batches[-1].append(i)
        tokens += lengths[i]
    return batches


def padded(texts):
    """ids and mask, [texts, longest], and whether anything is padding."""
    width = max(len(ids) for ids in texts)
    ids = numpy.zeros((len(texts), width), numpy.int64)
    mask = numpy.zeros((len(texts), width), numpy.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
        mask[row, : len(text)] = 1
    return ids, mask, len(texts[-1]) < width


def run(name, version, load):
    """`load(folder, threads)` gives a function of ids, mask and whether there is padding, that
    gives the embeddings, f32 [texts, hidden], each of length 1."""
    folder, path, out, threads, batch = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    tokenizer = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
    tokenizer.enable_truncation(LONGEST)
    tokenizer.no_padding()
    begin = time.perf_counter()
    embed = load(folder, int(threads))
    loaded = time.perf_counter() - begin
    rows = numpy.empty((len(lines), 384), numpy.float32)
    for _ in range(2):
        begin = time.perf_counter()
        texts = [encoding.ids for encoding in tokenizer.encode_batch_fast(lines)]
        for batch_texts in batches_of([len(ids) for ids in texts], batch):
            rows[batch_texts] = embed(*padded([texts[i] for i in batch_texts]))
        seconds = time.perf_counter() - begin
    numpy.save(out, rows)
    print(json.dumps({
        "peer": name, "version": version, "batch": batch, "seconds": seconds,
        "load_seconds": loaded, "tokens": sum(len(ids) for ids in texts),
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


def weights_of(folder):
    """The f32 tensors of model.safetensors by name."""
    with open(folder + "/model.safetensors", "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        data = file.read()
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = entry["data_offsets"]
        weights[name] = numpy.frombuffer(data[begin:end], numpy.float32).reshape(entry["shape"])
    return weights
