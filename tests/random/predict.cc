#include "tests/random/predict.h"

#include <cstring>

#include "tests/support/oracle.h"

namespace mp::test {
namespace {

Bytes Contents(const Step& step, DType dtype, int64_t count, size_t member, int variant) {
  const uint64_t seed = (step.seed * 16 + member) * 8 + static_cast<uint64_t>(variant);
  switch (step.content) {
    case Content::kSmall:
      return SmallNumbers(dtype, count, seed);
    case Content::kFactors:
      return SmallFactors(dtype, count, seed);
    case Content::kWild:
      return WildNumbers(dtype, count, seed);
    default:
      return AnyBits(dtype, count, seed);
  }
}

class Oracle {
 public:
  explicit Oracle(Program& program) : program_(program) {
    before_.resize(program.arrays.size());
    arenas_.assign(At(program.ranks), Poison(program.arena_bytes));
  }

  void Run() {
    for (int variant = 0; variant < program_.variants; ++variant) {
      for (Step& step : program_.steps) Take(step, variant);
    }
    program_.arenas = std::move(arenas_);
  }

 private:
  const Array& array(int a) const { return program_.arrays[At(a)]; }
  int rank(const Array& of, size_t m) const { return program_.groups[At(of.group)][m]; }

  Bytes Read(const Array& from, size_t m) const {
    const Place& place = from.places[m];
    if (place.arena < 0) return {};
    return ReadRows(arenas_[At(place.arena)].data(), from.dtype, place);
  }
  void Write(const Array& to, size_t m, const Bytes& elements) {
    const Place& place = to.places[m];
    if (place.arena < 0) return;
    WriteRows(arenas_[At(place.arena)].data(), to.dtype, place, elements);
  }
  std::vector<Bytes> ReadAll(const Array& from) const {
    std::vector<Bytes> all;
    for (size_t m = 0; m < from.places.size(); ++m) all.push_back(Read(from, m));
    return all;
  }

  void Take(Step& step, int variant) {
    const Array& target = array(step.array);
    switch (step.kind) {
      case StepKind::kFill:
        return Fill(step, target, variant);
      case StepKind::kStir:
        for (size_t m = 0; m < target.places.size(); ++m) {
          Bytes elements = Read(target, m);
          StirElements(target.dtype, elements);
          if (Fills(target, m, rank(target, m))) Write(target, m, elements);
        }
        return;
      case StepKind::kCopy:
        return Copy(array(step.source), target);
      case StepKind::kCheck:
        step.bytes.push_back(ReadAll(target));
        if (program_.wrong != Wrong::kNothing) step.before.push_back(before_[At(step.array)]);
        return;
      case StepKind::kCall:
        return CallAll(step);
      default:
        return;
    }
  }

  void Fill(Step& step, const Array& target, int variant) {
    std::vector<Bytes>& filled = step.bytes.emplace_back();
    for (size_t m = 0; m < target.places.size(); ++m) {
      const bool fills = Fills(target, m, rank(target, m));
      const int64_t count = fills ? target.places[m].shape.elements() : 0;
      filled.push_back(Contents(step, target.dtype, count, m, variant));
      if (fills) Write(target, m, filled.back());
    }
  }

  void Copy(const Array& source, const Array& target) {
    for (size_t m = 0; m < target.places.size(); ++m) {
      const int from = program_.position(source.group, rank(target, m));
      Write(target, m, Read(source, At(from)));
    }
  }

  // All inputs are read before anything is written.
  void CallAll(const Step& step) {
    std::vector<Bytes> results;
    for (const Call& call : step.calls) results.push_back(ResultOf(call));
    for (size_t i = 0; i < results.size(); ++i) {
      const Array& output = array(step.calls[i].output);
      before_[At(step.calls[i].output)] = ReadAll(output);
      for (size_t m = 0; m < output.places.size(); ++m) Write(output, m, results[i]);
    }
  }

  Bytes ResultOf(const Call& call) const {
    const Array& input = array(call.input);
    if (call.kind == OpKind::kAllReduce) {
      return Fold(input.dtype, call.op, call.scale, ReadAll(input));
    }
    std::vector<Shape> shapes;
    for (const Place& place : input.places) shapes.push_back(place.shape);
    const int dim = call.dim < 0 ? call.dim + shapes[0].rank() : call.dim;
    return Join(input.dtype, shapes, dim, ReadAll(input));
  }

  Program& program_;
  std::vector<Bytes> arenas_;
  std::vector<std::vector<Bytes>> before_;  // by array: what the last operation on it found there
};

// Calls visit(the row's offset in the arena, its offset in the dense elements, bytes of a row).
template <typename Visitor>
bool EachRow(DType dtype, const Place& place, const Visitor& visit) {
  const auto bytes = static_cast<size_t>(place.shape.columns() * SizeOf(dtype));
  if (bytes == 0) return true;
  const auto rows = static_cast<size_t>(place.shape.Product(0, place.shape.rank() - 1));
  const auto pitch = static_cast<size_t>(place.pitch);
  const auto offset = static_cast<size_t>(place.offset);
  for (size_t row = 0; row < rows; ++row) {
    if (!visit(offset + row * pitch, row * bytes, bytes)) return false;
  }
  return true;
}

}  // namespace

void Predict(Program& program) { Oracle(program).Run(); }

Bytes Poison(int64_t bytes) {
  Bytes poison(static_cast<size_t>(bytes));
  for (size_t i = 0; i < poison.size(); ++i) poison[i] = static_cast<uint8_t>(0xA5 ^ (i * 151));
  return poison;
}

void StirElements(DType dtype, Bytes& elements) {
  const auto size = static_cast<size_t>(SizeOf(dtype));
  for (size_t at = 0; at < elements.size(); at += size) {
    if (dtype == DType::kBool) {
      elements[at] ^= 1;
    } else if (IsReducibleFloat(dtype)) {
      elements[at + size - 1] ^= 0x80;  // the sign
    } else {
      elements[at] = static_cast<uint8_t>(elements[at] * 3 + 1);
    }
  }
}

Bytes ReadRows(const uint8_t* arena, DType dtype, const Place& place) {
  Bytes elements(static_cast<size_t>(place.shape.elements() * SizeOf(dtype)));
  EachRow(dtype, place, [&](size_t from, size_t to, size_t bytes) {
    std::memcpy(&elements[to], arena + from, bytes);
    return true;
  });
  return elements;
}

void WriteRows(uint8_t* arena, DType dtype, const Place& place, const Bytes& elements) {
  EachRow(dtype, place, [&](size_t to, size_t from, size_t bytes) {
    std::memcpy(arena + to, &elements[from], bytes);
    return true;
  });
}

bool SameRows(const uint8_t* arena, DType dtype, const Place& place, const Bytes& elements) {
  return EachRow(dtype, place, [&](size_t at, size_t from, size_t bytes) {
    return std::memcmp(arena + at, &elements[from], bytes) == 0;
  });
}

bool Fills(const Array& array, size_t m, int rank) {
  const Place& place = array.places[m];
  return place.arena >= 0 && (!array.shared || place.arena == rank);
}

}  // namespace mp::test
