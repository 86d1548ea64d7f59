"""all-MiniLM-L6-v2 by ONNX Runtime on the CPU: see peer.py. The graph is made of ONNX Runtime's own
fused operators (Attention, SkipLayerNormalization, BiasGelu), which is what its optimizer for
transformers would turn an exported one into."""

import os
import tempfile

import numpy
import onnx
import onnxruntime
import peer
from onnx import TensorProto, helper, numpy_helper

HEADS, LAYERS, EPSILON = 12, 6, 1e-12


class Graph:
    def __init__(self, weights):
        self.weights, self.nodes, self.tensors, self.fused = weights, [], {}, "com.microsoft"

    def tensor(self, name, value):
        self.tensors[name] = numpy_helper.from_array(numpy.ascontiguousarray(value), name)
        return name

    def weight(self, name):
        return self.tensor(name, self.weights[name])

    def node(self, kind, inputs, domain="", **attributes):
        output = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def matmul(self, x, name):
        return self.node("MatMul", [x, self.tensor(name, self.weights[name + ".weight"].T)])

    def layer(self, x, layer, mask):
        name = f"encoder.layer.{layer}."
        parts = [f"{name}attention.self.{part}" for part in ("query", "key", "value")]
        weight = numpy.concatenate([self.weights[part + ".weight"].T for part in parts], axis=1)
        bias = numpy.concatenate([self.weights[part + ".bias"] for part in parts])
        context = self.node(
            "Attention",
            [x, self.tensor(name + "qkv", weight), self.tensor(name + "qkv.bias", bias), mask],
            self.fused, num_heads=HEADS)
        x = self.end(x, context, name + "attention.output")
        up = self.node("BiasGelu", [self.matmul(x, name + "intermediate.dense"),
                                    self.weight(name + "intermediate.dense.bias")], self.fused)
        return self.end(x, up, name + "output")

    def end(self, x, inner, name):
        return self.node(
            "SkipLayerNormalization",
            [self.matmul(inner, name + ".dense"), x, self.weight(name + ".LayerNorm.weight"),
             self.weight(name + ".LayerNorm.bias"), self.weight(name + ".dense.bias")],
            self.fused, epsilon=EPSILON)

    def model(self):
        words = self.node("Gather", [self.weight("embeddings.word_embeddings.weight"), "ids"])
        places = self.weights["embeddings.position_embeddings.weight"] + self.weights[
            "embeddings.token_type_embeddings.weight"][0]
        count = self.node("Slice", [self.tensor("places", places), self.tensor(
            "zero", numpy.array([0])), "width", self.tensor("first", numpy.array([0]))])
        x = self.node("LayerNormalization", [
            self.node("Add", [words, count]), self.weight("embeddings.LayerNorm.weight"),
            self.weight("embeddings.LayerNorm.bias")], epsilon=EPSILON)
        mask = self.node("Cast", ["mask"], to=TensorProto.INT32)
        for layer in range(LAYERS):
            x = self.layer(x, layer, mask)
        shares = self.node("Unsqueeze", ["shares", self.tensor("one", numpy.array([1]))])
        pooled = self.node("MatMul", [shares, x])
        self.nodes.append(helper.make_node("Squeeze", [pooled, "one"], ["pooled"]))
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "encoder",
            [value("ids", TensorProto.INT64, ["b", "t"]),
             value("mask", TensorProto.INT64, ["b", "t"]),
             value("shares", TensorProto.FLOAT, ["b", "t"]),
             value("width", TensorProto.INT64, [1])],
            [value("pooled", TensorProto.FLOAT, ["b", 384])], list(self.tensors.values()))
        return helper.make_model(graph, ir_version=9, opset_imports=[
            helper.make_opsetid("", 17), helper.make_opsetid(self.fused, 1)])


def load(folder, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "model.onnx")
        if os.fork() == 0:  # what it takes to make the file is not the peer's memory
            onnx.save(Graph(peer.weights_of(folder)).model(), path)
            os._exit(0)
        os.wait()
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])

    def embed(ids, mask, _):
        shares = (mask / mask.sum(axis=1, keepdims=True)).astype(numpy.float32)
        width = numpy.array([ids.shape[1]])
        pooled, = session.run(
            ["pooled"], {"ids": ids, "mask": mask, "shares": shares, "width": width})
        return pooled / numpy.linalg.norm(pooled, axis=1, keepdims=True)

    return embed


peer.run("ONNX Runtime", onnxruntime.__version__, load)
