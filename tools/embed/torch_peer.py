"""all-MiniLM-L6-v2 by PyTorch on the CPU: see peer.py. The fewest operations that it takes."""

import peer
import torch
from torch.nn import functional

HEADS, LAYERS, EPSILON = 12, 6, 1e-12


class Model:
    def __init__(self, folder):
        self.weights = {n: torch.from_numpy(w.copy()) for n, w in peer.weights_of(folder).items()}
        self.joined = []
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}.attention.self."
            self.joined.append(tuple(
                torch.cat([self.weights.pop(f"{name}{part}.{kind}")
                           for part in ("query", "key", "value")])
                for kind in ("weight", "bias")))

    def linear(self, x, name):
        return functional.linear(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def norm(self, x, name):
        return functional.layer_norm(
            x, x.shape[-1:], self.weights[name + ".weight"], self.weights[name + ".bias"], EPSILON)

    def layer(self, x, layer, mask):
        name = f"encoder.layer.{layer}."
        texts, tokens, hidden = x.shape
        split = functional.linear(x, *self.joined[layer])
        query, key, value = split.view(texts, tokens, 3, HEADS, hidden // HEADS).permute(
            2, 0, 3, 1, 4)
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        context = context.transpose(1, 2).reshape(texts, tokens, hidden)
        x = self.norm(x + self.linear(context, name + "attention.output.dense"),
                      name + "attention.output.LayerNorm")
        up = functional.gelu(self.linear(x, name + "intermediate.dense"))
        return self.norm(x + self.linear(up, name + "output.dense"), name + "output.LayerNorm")

    @torch.inference_mode()
    def __call__(self, ids, mask, has_padding):
        ids, mask = torch.from_numpy(ids), torch.from_numpy(mask)
        x = functional.embedding(ids, self.weights["embeddings.word_embeddings.weight"])
        x = x + self.weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = self.norm(x + self.weights["embeddings.token_type_embeddings.weight"][0],
                      "embeddings.LayerNorm")
        keys = mask.bool()[:, None, None, :] if has_padding else None
        for layer in range(LAYERS):
            x = self.layer(x, layer, keys)
        mask = mask.unsqueeze(-1)
        return functional.normalize((x * mask).sum(1) / mask.sum(1)).numpy()


def load(folder, threads):
    torch.set_num_threads(threads)
    return Model(folder)


peer.run("PyTorch", torch.__version__, load)
