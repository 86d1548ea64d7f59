// What an operation must give, computed the plain way on dense tensors of the host.
//
//   Bytes sum = Fold(DType::kBF16, ReduceOp::kSum, 1.0, {x0, x1, x2});
//   Bytes full = Join(DType::kF32, {{2, 3}, {2, 0}, {2, 5}}, /*dim=*/1, {s0, s1, s2});
#ifndef MP_TESTS_SUPPORT_ORACLE_H_
#define MP_TESTS_SUPPORT_ORACLE_H_

#include <vector>

#include "mp/dtype.h"
#include "mp/tensor.h"
#include "tests/support/numbers.h"

namespace mp::test {

// Every element folded from the first input to the last: 16-bit floats in f32 and rounded once at
// the end, integers modulo 2^bits; avg divides the sum once; min and max prefer a number to a NaN,
// and -0 < +0.  Every float input is multiplied by `scale` first.
Bytes Fold(DType dtype, ReduceOp op, double scale, const std::vector<Bytes>& inputs);

// The joined tensor: out[i.., offset(r) + j, k..] = shard_r[i.., j, k..].
Bytes Join(DType dtype, const std::vector<Shape>& shapes, int dim,
           const std::vector<Bytes>& shards);

// How far a sum, or an average, of these inputs may be from the exact one in any order of adding:
// gamma(n - 1) * sum |x|, element by element, for the backends that do not promise an order.
std::string SumBoundViolation(DType dtype, ReduceOp op, const std::vector<Bytes>& inputs,
                              const Bytes& got);

}  // namespace mp::test

#endif  // MP_TESTS_SUPPORT_ORACLE_H_
