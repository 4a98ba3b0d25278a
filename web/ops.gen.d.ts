// ops.gen.d.ts - types of ops.gen.js; tools/gen_web.py writes it.
import type { DType, Generator, Tensor } from "./index.js";

/** Functions of tensors, by PyTorch's names.  The last argument may be an object of named arguments. */
export interface Functions {
    /** |x|; gradient 0 at 0. */
    abs(input: Tensor): Tensor;
    /** inverse cosine. */
    acos(input: Tensor): Tensor;
    /** inverse hyperbolic cosine. */
    acosh(input: Tensor): Tensor;
    /** input + alpha other */
    add(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** beta input + alpha sum over B of (batch1 @ batch2) : (M, N) or a shape that broadcasts to it, (B, M, K), (B, K, N) -> (M, N).  With beta 0 input does not matter. */
    addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, beta?: number, alpha?: number): Tensor;
    addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, options: { beta?: number; alpha?: number }): Tensor;
    /** x + value tensor1 / tensor2.  Shapes broadcast, dtypes promote. */
    addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, value?: number): Tensor;
    addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, options: { value?: number }): Tensor;
    /** x + value tensor1 tensor2.  Shapes broadcast, dtypes promote. */
    addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, value?: number): Tensor;
    addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, options: { value?: number }): Tensor;
    /** beta input + alpha (mat1 @ mat2) : (M, N) or a shape that broadcasts to it, (M, K), (K, N) -> (M, N).  With beta 0 input does not matter, not even NaN. */
    addmm(input: Tensor, mat1: Tensor, mat2: Tensor, beta?: number, alpha?: number): Tensor;
    addmm(input: Tensor, mat1: Tensor, mat2: Tensor, options: { beta?: number; alpha?: number }): Tensor;
    /** beta input + alpha (mat @ vec) : (M) or a shape that broadcasts to it, (M, K), (K) -> (M).  With beta 0 input does not matter. */
    addmv(input: Tensor, mat: Tensor, vec: Tensor, beta?: number, alpha?: number): Tensor;
    addmv(input: Tensor, mat: Tensor, vec: Tensor, options: { beta?: number; alpha?: number }): Tensor;
    /** beta input + alpha outer(vec1, vec2) : (M, N) or a shape that broadcasts to it, (M), (N) -> (M, N).  With beta 0 input does not matter. */
    addr(input: Tensor, vec1: Tensor, vec2: Tensor, beta?: number, alpha?: number): Tensor;
    addr(input: Tensor, vec1: Tensor, vec2: Tensor, options: { beta?: number; alpha?: number }): Tensor;
    /** Is no element 0, over the axes ``dim``, all when absent?  bool, uint8 for uint8; of no elements: yes. */
    all(input: Tensor, dim?: number | number[] | null, keepdim?: boolean): Tensor;
    all(input: Tensor, options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** Is ``isclose`` true everywhere? */
    allclose(input: Tensor, other: Tensor, rtol?: number, atol?: number, equal_nan?: boolean): boolean;
    allclose(input: Tensor, other: Tensor, options: { rtol?: number; atol?: number; equal_nan?: boolean }): boolean;
    /** The largest element over the axes ``dim``; NaN wins, ties share the gradient. */
    amax(input: Tensor, dim?: number | number[] | null, keepdim?: boolean): Tensor;
    amax(input: Tensor, options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** The smallest element over the axes ``dim``; NaN wins, ties share the gradient. */
    amin(input: Tensor, dim?: number | number[] | null, keepdim?: boolean): Tensor;
    amin(input: Tensor, options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** (min, max): the smallest and the largest element over the axes ``dim``, all when absent; NaN wins, ties share the gradient. */
    aminmax(input: Tensor, dim?: number | number[] | null, keepdim?: boolean): [Tensor, Tensor];
    aminmax(input: Tensor, options: { dim?: number | number[] | null; keepdim?: boolean }): [Tensor, Tensor];
    /** Is an element not 0, over the axes ``dim``, all when absent?  bool, uint8 for uint8; of no elements: no. */
    any(input: Tensor, dim?: number | number[] | null, keepdim?: boolean): Tensor;
    any(input: Tensor, options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** The indices of ``sort``. */
    argsort(input: Tensor, dim?: number, descending?: boolean): Tensor;
    argsort(input: Tensor, options: { dim?: number; descending?: boolean }): Tensor;
    /** inverse sine. */
    asin(input: Tensor): Tensor;
    /** inverse hyperbolic sine. */
    asinh(input: Tensor): Tensor;
    /** inverse tangent. */
    atan(input: Tensor): Tensor;
    /** angle of the point (b, a); gradient 0 at (0, 0).  Shapes broadcast, dtypes promote. */
    atan2(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** inverse hyperbolic tangent. */
    atanh(input: Tensor): Tensor;
    /** beta input + alpha (batch1 @ batch2) : (B, M, N) or what broadcasts to it, (B, M, K), (B, K, N) -> (B, M, N).  With beta 0 input does not matter. */
    baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, beta?: number, alpha?: number): Tensor;
    baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, options: { beta?: number; alpha?: number }): Tensor;
    /** How often 0, 1, 2, ... occur among integers along one axis, or the sum of their weights; at least ``minlength`` of them. */
    bincount(input: Tensor, weights?: Tensor | null, minlength?: number): Tensor;
    bincount(input: Tensor, options: { weights?: Tensor | null; minlength?: number }): Tensor;
    /** a & b.  Shapes broadcast, dtypes promote. */
    bitwise_and(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** a << b; 0 where b < 0 or b >= the width.  Shapes broadcast, dtypes promote. */
    bitwise_left_shift(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** ~x; bool: not x. */
    bitwise_not(input: Tensor): Tensor;
    /** a | b.  Shapes broadcast, dtypes promote. */
    bitwise_or(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** a >> b, keeps the sign.  Shapes broadcast, dtypes promote. */
    bitwise_right_shift(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** a ^ b.  Shapes broadcast, dtypes promote. */
    bitwise_xor(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** (B, M, K) (B, K, N) -> (B, M, N) */
    bmm(input: Tensor, mat2: Tensor): Tensor;
    /** Tensors one after the other along an axis they have. */
    cat(tensors: Tensor[], dim?: number): Tensor;
    cat(tensors: Tensor[], options: { dim?: number }): Tensor;
    /** next integer above. */
    ceil(input: Tensor): Tensor;
    /** x where x > 0, else alpha (e^(x / alpha) - 1). */
    celu(input: Tensor, alpha?: number): Tensor;
    celu(input: Tensor, options: { alpha?: number }): Tensor;
    /** min(x, max); at the bound the gradient is x's.  Shapes broadcast, dtypes promote. */
    clamp_max(input: Tensor, max: Tensor | number | boolean): Tensor;
    /** max(x, min); at the bound the gradient is x's.  Shapes broadcast, dtypes promote. */
    clamp_min(input: Tensor, min: Tensor | number | boolean): Tensor;
    /** A copy in new memory; gradients flow through. */
    clone(input: Tensor): Tensor;
    /** The same values, in order and without gaps; no copy where that holds already. */
    contiguous(input: Tensor): Tensor;
    /** |a| with the sign of b; gradient 0 at 0.  Shapes broadcast, dtypes promote. */
    copysign(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** cosine. */
    cos(input: Tensor): Tensor;
    /** hyperbolic cosine. */
    cosh(input: Tensor): Tensor;
    /** How many elements are not 0, over the axes ``dim``, all when absent; int64. */
    count_nonzero(input: Tensor, dim?: number | number[] | null): Tensor;
    count_nonzero(input: Tensor, options: { dim?: number | number[] | null }): Tensor;
    /** (values, indices): the largest element up to each along ``dim``, and where it is, the last of equals; NaN wins. */
    cummax(input: Tensor, dim: number): [Tensor, Tensor];
    /** (values, indices): the smallest element up to each along ``dim``, and where it is, the last of equals; NaN wins. */
    cummin(input: Tensor, dim: number): [Tensor, Tensor];
    /** y[k] = x[0] ... x[k] along ``dim``.  Integers and bool multiply as int64.  The gradient is exact where elements are 0. */
    cumprod(input: Tensor, dim: number): Tensor;
    /** y[k] = x[0] + ... + x[k] along ``dim``.  Integers and bool sum as int64. */
    cumsum(input: Tensor, dim: number): Tensor;
    /** degrees as radians. */
    deg2rad(input: Tensor): Tensor;
    /** A vector as a diagonal of a matrix of zeros; the diagonal of a matrix, as a copy. */
    diag(input: Tensor, diagonal?: number): Tensor;
    diag(input: Tensor, options: { diagonal?: number }): Tensor;
    /** The last axis as the diagonal of two new axes, dim1 and dim2 of the result, zeros elsewhere: (..., n) -> (..., n + |offset|, n + |offset|). */
    diag_embed(input: Tensor, offset?: number, dim1?: number, dim2?: number): Tensor;
    diag_embed(input: Tensor, options: { offset?: number; dim1?: number; dim2?: number }): Tensor;
    /** The view x[i, i + offset] of the axes dim1 and dim2, as the last axis. */
    diagonal(input: Tensor, offset?: number, dim1?: number, dim2?: number): Tensor;
    diagonal(input: Tensor, options: { offset?: number; dim1?: number; dim2?: number }): Tensor;
    /** y[k] = x[k + 1] - x[k] along ``dim``, n times over; prepend and append are put around x first.  Of bools: are they different? */
    diff(input: Tensor, n?: number, dim?: number): Tensor;
    diff(input: Tensor, options: { n?: number; dim?: number }): Tensor;
    /** the derivative of lgamma. */
    digamma(input: Tensor): Tensor;
    /** input / other; rounding_mode "trunc" rounds the result towards 0, "floor" down. */
    div(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** (K) (K) -> () */
    dot(input: Tensor, tensor: Tensor): Tensor;
    /** x where x > 0, else alpha (e^x - 1). */
    elu(input: Tensor, alpha?: number): Tensor;
    elu(input: Tensor, options: { alpha?: number }): Tensor;
    /** A tensor of the given shape with arbitrary values: the memory is not written. */
    empty(size: number[], dtype?: DType | null): Tensor;
    empty(...size: number[]): Tensor;
    empty(size: number[], options: { dtype?: DType | null }): Tensor;
    /** Memory of the shape, dtype and device of ``input``, not written. */
    empty_like(input: Tensor): Tensor;
    /** -x log(x); 0 at 0, -infinity below. */
    entr(input: Tensor): Tensor;
    /** a == b.  Shapes broadcast, dtypes promote. */
    eq(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** The same shape and elements?  NaN is equal to nothing. */
    equal(input: Tensor, other: Tensor): boolean;
    /** error function. */
    erf(input: Tensor): Tensor;
    /** 1 - erf(x), exact where that is small. */
    erfc(input: Tensor): Tensor;
    /** exp(x^2) erfc(x). */
    erfcx(input: Tensor): Tensor;
    /** the inverse of erf; infinite at -1 and 1. */
    erfinv(input: Tensor): Tensor;
    /** e^x. */
    exp(input: Tensor): Tensor;
    /** 2^x. */
    exp2(input: Tensor): Tensor;
    /** e^x - 1, exact near 0. */
    expm1(input: Tensor): Tensor;
    /** The axes start_dim ... end_dim as one. */
    flatten(input: Tensor, start_dim?: number, end_dim?: number): Tensor;
    flatten(input: Tensor, options: { start_dim?: number; end_dim?: number }): Tensor;
    /** A copy, backwards along the axes ``dims``; x[::-1] is a view. */
    flip(input: Tensor, dims: number[]): Tensor;
    /** next integer below. */
    floor(input: Tensor): Tensor;
    /** floor(a / b); integers: an error where b is 0.  Shapes broadcast, dtypes promote. */
    floor_divide(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** the larger; a number wins over NaN; ties give the gradient to a.  Shapes broadcast, dtypes promote. */
    fmax(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** the smaller; a number wins over NaN; ties give the gradient to a.  Shapes broadcast, dtypes promote. */
    fmin(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** a - b trunc(a / b): a's sign; integers: an error where b is 0.  Shapes broadcast, dtypes promote. */
    fmod(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** x - trunc(x). */
    frac(input: Tensor): Tensor;
    /** A tensor filled with one value.  Without ``dtype``: float32 for a float, int64 for an int, bool for a bool. */
    full(size: number[], fill_value: number, dtype?: DType | null): Tensor;
    full(size: number[], fill_value: number, options: { dtype?: DType | null }): Tensor;
    /** out[i][j] = input[index[i][j]][j] for dim 0, and so on; index: int64, with input's axes. */
    gather(input: Tensor, dim: number, index: Tensor): Tensor;
    /** a >= b.  Shapes broadcast, dtypes promote. */
    ge(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** x Phi(x), Phi the normal distribution; approximate="tanh": x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
    gelu(input: Tensor): Tensor;
    /** a > b.  Shapes broadcast, dtypes promote. */
    gt(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** min(max(x + 3, 0), 6) / 6. */
    hardsigmoid(input: Tensor): Tensor;
    /** x hardsigmoid(x). */
    hardswish(input: Tensor): Tensor;
    /** min(max(x, min_val), max_val); gradient 0 at the bounds. */
    hardtanh(input: Tensor, min_val?: number, max_val?: number): Tensor;
    hardtanh(input: Tensor, options: { min_val?: number; max_val?: number }): Tensor;
    /** How many elements lie in each of ``bins`` equal parts of [min, max], or of where they lie when both are equal; NaN in none : (bins). */
    histc(input: Tensor, bins?: number, min?: number, max?: number): Tensor;
    histc(input: Tensor, options: { bins?: number; min?: number; max?: number }): Tensor;
    /** sqrt(a^2 + b^2), no overflow.  Shapes broadcast, dtypes promote. */
    hypot(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** modified Bessel function of the first kind, order 0. */
    i0(input: Tensor): Tensor;
    /** exp(-|x|) i0(x). */
    i0e(input: Tensor): Tensor;
    /** modified Bessel function of the first kind, order 1. */
    i1(input: Tensor): Tensor;
    /** exp(-|x|) i1(x). */
    i1e(input: Tensor): Tensor;
    /** A copy of input with alpha source[..., k, ...] added at ``index[k]`` along ``dim``, in order : (..., R, ...), (K), (..., K, ...). */
    index_add(input: Tensor, dim: number, index: Tensor, source: Tensor): Tensor;
    /** A copy of input with source[..., k, ...] at ``index[k]`` along ``dim``, the last where two go to one index : (..., R, ...), (K), (..., K, ...). */
    index_copy(input: Tensor, dim: number, index: Tensor, source: Tensor): Tensor;
    /** A copy of input with ``value``, a number or a 0-d tensor, at ``index`` along ``dim``. */
    index_fill(input: Tensor, dim: number, index: Tensor, value: Tensor | number | boolean): Tensor;
    /** A copy of input with out[indices] = values, which are cast and broadcast; with ``accumulate`` they are added, in order. */
    index_put(input: Tensor, indices: Tensor[], values: Tensor, accumulate?: boolean): Tensor;
    index_put(input: Tensor, indices: Tensor[], values: Tensor, options: { accumulate?: boolean }): Tensor;
    /** The elements at ``index``, int32 or int64 with at most one axis, along ``dim`` : (..., R, ...), (K) -> (..., K, ...). */
    index_select(input: Tensor, dim: number, index: Tensor): Tensor;
    /** All dot products of rows: (..., K) (...', K) -> (..., ...'); with a 0-d operand the product. */
    inner(input: Tensor, other: Tensor): Tensor;
    /** input == other, or |input - other| <= atol + rtol |other|; ``equal_nan``: NaN is close to NaN.  bool. */
    isclose(input: Tensor, other: Tensor, rtol?: number, atol?: number, equal_nan?: boolean): Tensor;
    isclose(input: Tensor, other: Tensor, options: { rtol?: number; atol?: number; equal_nan?: boolean }): Tensor;
    /** is x neither NaN nor an infinity?. */
    isfinite(input: Tensor): Tensor;
    /** Is each element one of test_elements (invert: none of them)?  bool; NaN is in nothing. */
    isin(elements: Tensor | number | boolean, test_elements: Tensor | number | boolean): Tensor;
    /** is x an infinity?. */
    isinf(input: Tensor): Tensor;
    /** is x NaN?. */
    isnan(input: Tensor): Tensor;
    /** is x -infinity?. */
    isneginf(input: Tensor): Tensor;
    /** is x +infinity?. */
    isposinf(input: Tensor): Tensor;
    /** Blocks input[i, j] other : (M, N) (P, Q) -> (M P, N Q); up to 4 axes. */
    kron(input: Tensor, other: Tensor): Tensor;
    /** (values, indices): the ``k``-th smallest along ``dim``, k from 1.  RuntimeError: there is no such element. */
    kthvalue(input: Tensor, k: number, dim?: number, keepdim?: boolean): [Tensor, Tensor];
    kthvalue(input: Tensor, k: number, options: { dim?: number; keepdim?: boolean }): [Tensor, Tensor];
    /** a <= b.  Shapes broadcast, dtypes promote. */
    le(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** x where x > 0, else negative_slope x. */
    leaky_relu(input: Tensor, negative_slope?: number): Tensor;
    leaky_relu(input: Tensor, options: { negative_slope?: number }): Tensor;
    /** a + weight (end - a).  Shapes broadcast, dtypes promote. */
    lerp(input: Tensor, end: Tensor, weight: Tensor | number | boolean): Tensor;
    /** log |Gamma(x)|. */
    lgamma(input: Tensor): Tensor;
    /** ``steps`` numbers at equal distances from ``start`` to ``end``, both included; each a number or a 0-d tensor. */
    linspace(start: number, end: number, steps: number, dtype?: DType | null): Tensor;
    linspace(start: number, end: number, steps: number, options: { dtype?: DType | null }): Tensor;
    /** natural logarithm. */
    log(input: Tensor): Tensor;
    /** logarithm to the base 10. */
    log10(input: Tensor): Tensor;
    /** log(1 + x), exact near 0. */
    log1p(input: Tensor): Tensor;
    /** logarithm to the base 2. */
    log2(input: Tensor): Tensor;
    /** log(ndtr(x)), also where that is small. */
    log_ndtr(input: Tensor): Tensor;
    /** x - log(sum(exp(x))) along ``dim``; the same shape.  dtype: x is cast to it first. */
    log_softmax(input: Tensor, dim: number): Tensor;
    /** log(e^a + e^b), no overflow.  Shapes broadcast, dtypes promote. */
    logaddexp(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** log2(2^a + 2^b), no overflow.  Shapes broadcast, dtypes promote. */
    logaddexp2(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** y[k] = log(exp(x[0]) + ... + exp(x[k])) along ``dim``, without overflow. */
    logcumsumexp(input: Tensor, dim: number): Tensor;
    /** a and b, true where not 0.  Shapes broadcast, dtypes promote. */
    logical_and(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** not x. */
    logical_not(input: Tensor): Tensor;
    /** a or b.  Shapes broadcast, dtypes promote. */
    logical_or(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** either a or b.  Shapes broadcast, dtypes promote. */
    logical_xor(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** log(sigmoid(x)). */
    logsigmoid(input: Tensor): Tensor;
    /** log(sum(exp(x))) over the axes ``dim``, without overflow. */
    logsumexp(input: Tensor, dim: number | number[], keepdim?: boolean): Tensor;
    logsumexp(input: Tensor, dim: number | number[], options: { keepdim?: boolean }): Tensor;
    /** a < b.  Shapes broadcast, dtypes promote. */
    lt(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** ``value`` where the bool ``mask`` holds, else input; the mask broadcasts. */
    masked_fill(input: Tensor, mask: Tensor, value: number): Tensor;
    /** The k-th position where the bool ``mask`` holds gets the k-th element of ``source``; elsewhere input; the mask broadcasts. */
    masked_scatter(input: Tensor, mask: Tensor, source: Tensor): Tensor;
    /** The elements where the bool ``mask`` holds, in order; both broadcast : (K). */
    masked_select(input: Tensor, mask: Tensor): Tensor;
    /** (..., M, K) (..., K, N) -> (..., M, N), axes in front broadcast; vectors as in NumPy. */
    matmul(input: Tensor, other: Tensor): Tensor;
    /** the larger; NaN wins, ties share the gradient.  Shapes broadcast, dtypes promote. */
    maximum(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** The mean over the axes ``dim``, all when absent. */
    mean(input: Tensor, dim?: number | number[] | null, keepdim?: boolean): Tensor;
    mean(input: Tensor, options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** the smaller; NaN wins, ties share the gradient.  Shapes broadcast, dtypes promote. */
    minimum(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** x tanh(softplus(x)). */
    mish(input: Tensor): Tensor;
    /** (M, K) (K, N) -> (M, N) */
    mm(input: Tensor, mat2: Tensor): Tensor;
    /** (values, indices): the most frequent element along ``dim``, of those the smallest, and where it is first. */
    mode(input: Tensor, dim?: number, keepdim?: boolean): [Tensor, Tensor];
    mode(input: Tensor, options: { dim?: number; keepdim?: boolean }): [Tensor, Tensor];
    /** a * b.  Shapes broadcast, dtypes promote. */
    mul(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** Positions drawn by their weights : (N) or (M, N) -> (num_samples) or (M, num_samples), int64.  Weights need not sum to 1. */
    multinomial(input: Tensor, num_samples: number, replacement?: boolean, generator?: Generator | null): Tensor;
    multinomial(input: Tensor, num_samples: number, options: { replacement?: boolean; generator?: Generator | null }): Tensor;
    /** (M, K) (K) -> (M) */
    mv(input: Tensor, vec: Tensor): Tensor;
    /** The mean of the elements that are not NaN, over the axes ``dim``, all when absent; NaN where all are. */
    nanmean(input: Tensor, dim?: number | number[] | null, keepdim?: boolean): Tensor;
    nanmean(input: Tensor, options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** The sum over the axes ``dim``, all when absent, with NaN counted as 0.  Integers and bool sum as int64. */
    nansum(input: Tensor, dim?: number | number[] | null, keepdim?: boolean): Tensor;
    nansum(input: Tensor, options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** The view x[start : start + length] along ``dim``. */
    narrow(input: Tensor, dim: number, start: number, length: number): Tensor;
    /** the normal distribution function. */
    ndtr(input: Tensor): Tensor;
    /** the inverse of ndtr: the normal distribution's quantiles. */
    ndtri(input: Tensor): Tensor;
    /** a != b.  Shapes broadcast, dtypes promote. */
    ne(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** -x. */
    neg(input: Tensor): Tensor;
    /** The next number of the dtype after input towards other.  Shapes broadcast, dtypes promote; no gradient. */
    nextafter(input: Tensor, other: Tensor | number | boolean): Tensor;
    /** Where input is not 0, in order : int64 (K, ndim); with ``as_tuple`` a tensor (K) for each axis, as input[...] takes them. */
    nonzero(input: Tensor): Tensor;
    /** Normal numbers, each with its own ``mean`` and ``std`` (1 when absent), which broadcast; of two numbers, ``size`` of them. */
    normal(mean: Tensor | number | boolean, std?: Tensor | number | boolean | null, generator?: Generator | null): Tensor;
    normal(mean: Tensor | number | boolean, options: { std?: Tensor | number | boolean | null; generator?: Generator | null }): Tensor;
    /** 1 at the position that each element names, else 0 : (...) -> int64 (..., num_classes); -1: one more than the largest. */
    one_hot(tensor: Tensor, num_classes?: number): Tensor;
    one_hot(tensor: Tensor, options: { num_classes?: number }): Tensor;
    /** Ones of the given shape; float32 unless a dtype is given. */
    ones(size: number[], dtype?: DType | null): Tensor;
    ones(...size: number[]): Tensor;
    ones(size: number[], options: { dtype?: DType | null }): Tensor;
    /** Ones of the shape, dtype and device of ``input``. */
    ones_like(input: Tensor): Tensor;
    /** (M) (N) -> (M, N): all products */
    outer(input: Tensor, vec2: Tensor): Tensor;
    /** A view with the axes in the order given. */
    permute(input: Tensor, dims: number[]): Tensor;
    /** input to the power exponent; 0 to the 0 is 1 */
    pow(input: Tensor | number | boolean, exponent: Tensor | number | boolean): Tensor;
    /** The product over the axes ``dim``, all when absent.  Integers and bool multiply as int64.  The gradient is exact where elements are 0. */
    prod(input: Tensor, dim?: number | number[] | null, keepdim?: boolean): Tensor;
    prod(input: Tensor, options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** radians as degrees. */
    rad2deg(input: Tensor): Tensor;
    /** Uniform random numbers in [0, 1). */
    rand(size: number[], dtype?: DType | null, generator?: Generator | null): Tensor;
    rand(...size: number[]): Tensor;
    rand(size: number[], options: { dtype?: DType | null; generator?: Generator | null }): Tensor;
    /** Random numbers from the standard normal distribution. */
    randn(size: number[], dtype?: DType | null, generator?: Generator | null): Tensor;
    randn(...size: number[]): Tensor;
    randn(size: number[], options: { dtype?: DType | null; generator?: Generator | null }): Tensor;
    /** 0 ... n - 1 in random order; int64 unless a dtype is given. */
    randperm(n: number, dtype?: DType | null, generator?: Generator | null): Tensor;
    randperm(n: number, options: { dtype?: DType | null; generator?: Generator | null }): Tensor;
    /** 1 / x. */
    reciprocal(input: Tensor): Tensor;
    /** max(x, 0); gradient 0 at 0. */
    relu(input: Tensor): Tensor;
    /** min(max(x, 0), 6). */
    relu6(input: Tensor): Tensor;
    /** a - b floor(a / b): b's sign; integers: an error where b is 0.  Shapes broadcast, dtypes promote. */
    remainder(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** The same elements in the same order in another shape; one size may be -1.  A view where possible. */
    reshape(input: Tensor, shape: number[]): Tensor;
    /** The nearest number of ``decimals`` digits after the point, before it where negative; ties to even.  The gradient is 0. */
    round(input: Tensor): Tensor;
    /** 1 / sqrt(x). */
    rsqrt(input: Tensor): Tensor;
    /** A copy of input with out[index[i][j]][j] = src[i][j] for dim 0, and so on; src or value may be one number for all.  Of what goes to */
    scatter(input: Tensor, dim: number, index: Tensor, src?: Tensor | number | boolean | null): Tensor;
    scatter(input: Tensor, dim: number, index: Tensor, options: { src?: Tensor | number | boolean | null }): Tensor;
    /** A copy of input with out[index[i][j]][j] += src[i][j] for dim 0, and so on, in order: the same bits every time. */
    scatter_add(input: Tensor, dim: number, index: Tensor, src: Tensor): Tensor;
    /** How many of the sorted sequence are less than each number (right, or side="right": or equal) : (R), (...) or (..., R), (..., K); int64. */
    searchsorted(sorted_sequence: Tensor, input: Tensor | number | boolean, out_int32?: boolean, sorter?: Tensor | null): Tensor;
    searchsorted(sorted_sequence: Tensor, input: Tensor | number | boolean, options: { out_int32?: boolean; sorter?: Tensor | null }): Tensor;
    /** The view x[index] along ``dim``, without that axis. */
    select(input: Tensor, dim: number, index: number): Tensor;
    /** 1.0507 (x where x > 0, else 1.6733 (e^x - 1)) (Klambauer et al. 2017). */
    selu(input: Tensor): Tensor;
    /** 1 / (1 + e^-x). */
    sigmoid(input: Tensor): Tensor;
    /** -1, 0 or 1. */
    sign(input: Tensor): Tensor;
    /** is x negative, or -0?. */
    signbit(input: Tensor): Tensor;
    /** x sigmoid(x). */
    silu(input: Tensor): Tensor;
    /** sine. */
    sin(input: Tensor): Tensor;
    /** sin(pi x) / (pi x); 1 at 0. */
    sinc(input: Tensor): Tensor;
    /** hyperbolic sine. */
    sinh(input: Tensor): Tensor;
    /** exp(x) / sum(exp(x)) along ``dim``; the same shape.  dtype: x is cast to it first. */
    softmax(input: Tensor, dim: number): Tensor;
    /** log(1 + e^(beta x)) / beta; x where beta x > threshold. */
    softplus(input: Tensor, beta?: number, threshold?: number): Tensor;
    softplus(input: Tensor, options: { beta?: number; threshold?: number }): Tensor;
    /** x / (1 + |x|). */
    softsign(input: Tensor): Tensor;
    /** (values, indices): the elements in order along ``dim``, and where they were, int64.  Equal elements keep their order, with or without ``stable``. */
    sort(input: Tensor, dim?: number, descending?: boolean): [Tensor, Tensor];
    sort(input: Tensor, options: { dim?: number; descending?: boolean }): [Tensor, Tensor];
    /** square root. */
    sqrt(input: Tensor): Tensor;
    /** x^2. */
    square(input: Tensor): Tensor;
    /** A view without the axes of size 1: all of them, or those of ``dim`` that have it. */
    squeeze(input: Tensor, dim?: number | number[] | null): Tensor;
    squeeze(input: Tensor, options: { dim?: number | number[] | null }): Tensor;
    /** Tensors of one shape along a new axis. */
    stack(tensors: Tensor[], dim?: number): Tensor;
    stack(tensors: Tensor[], options: { dim?: number }): Tensor;
    /** input - alpha other */
    sub(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** The sum over the axes ``dim``, all when absent; keepdim leaves them with size 1.  Integers and bool sum as int64. */
    sum(input: Tensor, dim?: number | number[] | null, keepdim?: boolean): Tensor;
    sum(input: Tensor, options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** The elements at ``index`` of input as one vector, in index's shape; negative indices count from the end. */
    take(input: Tensor, index: Tensor): Tensor;
    /** tangent. */
    tan(input: Tensor): Tensor;
    /** hyperbolic tangent. */
    tanh(input: Tensor): Tensor;
    /** The tensor dims[i] times along axis i, counted from the last one; axes not named are not repeated. */
    tile(input: Tensor, dims: number[]): Tensor;
    /** (values, indices): the ``k`` largest along ``dim``, from the largest down, or the smallest; of equal ones the first.  In order whatever ``sorted`` says. */
    topk(input: Tensor, k: number, dim?: number, largest?: boolean): [Tensor, Tensor];
    topk(input: Tensor, k: number, options: { dim?: number; largest?: boolean }): [Tensor, Tensor];
    /** The sum of a matrix's diagonal; integers sum as int64. */
    trace(input: Tensor): Tensor;
    /** A view with two axes swapped. */
    transpose(input: Tensor, dim0: number, dim1: number): Tensor;
    /** Zeros above the diagonal of the last two axes. */
    tril(input: Tensor, diagonal?: number): Tensor;
    tril(input: Tensor, options: { diagonal?: number }): Tensor;
    /** Zeros below the diagonal of the last two axes. */
    triu(input: Tensor, diagonal?: number): Tensor;
    triu(input: Tensor, options: { diagonal?: number }): Tensor;
    /** next integer towards 0. */
    trunc(input: Tensor): Tensor;
    /** One axis as several, of the given sizes; one may be -1. */
    unflatten(input: Tensor, dim: number, sizes: number[]): Tensor;
    /** A view with one more axis of size 1, at ``dim``. */
    unsqueeze(input: Tensor, dim: number): Tensor;
    /** input where condition, else other; condition is bool.  ``where(condition)`` is ``nonzero(condition, as_tuple=True)``. */
    where(condition: Tensor, input?: Tensor | number | boolean | null, other?: Tensor | number | boolean | null): Tensor;
    where(condition: Tensor, options: { input?: Tensor | number | boolean | null; other?: Tensor | number | boolean | null }): Tensor;
    /** a log(1 + b); 0 where a is 0 and b is a number.  Shapes broadcast, dtypes promote. */
    xlog1py(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** a log(b); 0 where a is 0 and b is a number.  Shapes broadcast, dtypes promote. */
    xlogy(input: Tensor | number | boolean, other: Tensor | number | boolean): Tensor;
    /** Zeros of the given shape: ``zeros(2, 3)`` or ``zeros((2, 3))``; float32 unless a dtype is given. */
    zeros(size: number[], dtype?: DType | null): Tensor;
    zeros(...size: number[]): Tensor;
    zeros(size: number[], options: { dtype?: DType | null }): Tensor;
    /** Zeros of the shape, dtype and device of ``input``. */
    zeros_like(input: Tensor): Tensor;
    /** Hurwitz's zeta function: the sum of (q + k)^-x, k = 0, 1 ...; x > 1, q > 0, no gradient for x.  Shapes broadcast, dtypes promote. */
    zeta(input: Tensor | number | boolean, q: Tensor | number | boolean): Tensor;
}

/** The same as methods of a tensor. */
export interface Methods {
    /** |x|; gradient 0 at 0. */
    abs(): Tensor;
    /** abs, written into input: its shape and dtype stay. */
    abs_(): Tensor;
    /** inverse cosine. */
    acos(): Tensor;
    /** acos, written into input: its shape and dtype stay. */
    acos_(): Tensor;
    /** inverse hyperbolic cosine. */
    acosh(): Tensor;
    /** acosh, written into input: its shape and dtype stay. */
    acosh_(): Tensor;
    /** input + alpha other */
    add(other: Tensor | number | boolean): Tensor;
    /** input + alpha other, written into input. */
    add_(other: Tensor | number | boolean): Tensor;
    /** beta input + alpha sum over B of (batch1 @ batch2) : (M, N) or a shape that broadcasts to it, (B, M, K), (B, K, N) -> (M, N).  With beta 0 input does not matter. */
    addbmm(batch1: Tensor, batch2: Tensor, beta?: number, alpha?: number): Tensor;
    addbmm(batch1: Tensor, batch2: Tensor, options: { beta?: number; alpha?: number }): Tensor;
    /** x + value tensor1 / tensor2.  Shapes broadcast, dtypes promote. */
    addcdiv(tensor1: Tensor, tensor2: Tensor, value?: number): Tensor;
    addcdiv(tensor1: Tensor, tensor2: Tensor, options: { value?: number }): Tensor;
    /** addcdiv, written into input: its shape and dtype stay. */
    addcdiv_(tensor1: Tensor, tensor2: Tensor, value?: number): Tensor;
    addcdiv_(tensor1: Tensor, tensor2: Tensor, options: { value?: number }): Tensor;
    /** x + value tensor1 tensor2.  Shapes broadcast, dtypes promote. */
    addcmul(tensor1: Tensor, tensor2: Tensor, value?: number): Tensor;
    addcmul(tensor1: Tensor, tensor2: Tensor, options: { value?: number }): Tensor;
    /** addcmul, written into input: its shape and dtype stay. */
    addcmul_(tensor1: Tensor, tensor2: Tensor, value?: number): Tensor;
    addcmul_(tensor1: Tensor, tensor2: Tensor, options: { value?: number }): Tensor;
    /** beta input + alpha (mat1 @ mat2) : (M, N) or a shape that broadcasts to it, (M, K), (K, N) -> (M, N).  With beta 0 input does not matter, not even NaN. */
    addmm(mat1: Tensor, mat2: Tensor, beta?: number, alpha?: number): Tensor;
    addmm(mat1: Tensor, mat2: Tensor, options: { beta?: number; alpha?: number }): Tensor;
    /** beta input + alpha (mat @ vec) : (M) or a shape that broadcasts to it, (M, K), (K) -> (M).  With beta 0 input does not matter. */
    addmv(mat: Tensor, vec: Tensor, beta?: number, alpha?: number): Tensor;
    addmv(mat: Tensor, vec: Tensor, options: { beta?: number; alpha?: number }): Tensor;
    /** beta input + alpha outer(vec1, vec2) : (M, N) or a shape that broadcasts to it, (M), (N) -> (M, N).  With beta 0 input does not matter. */
    addr(vec1: Tensor, vec2: Tensor, beta?: number, alpha?: number): Tensor;
    addr(vec1: Tensor, vec2: Tensor, options: { beta?: number; alpha?: number }): Tensor;
    /** Is no element 0, over the axes ``dim``, all when absent?  bool, uint8 for uint8; of no elements: yes. */
    all(dim?: number | number[] | null, keepdim?: boolean): Tensor;
    all(options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** Is ``isclose`` true everywhere? */
    allclose(other: Tensor, rtol?: number, atol?: number, equal_nan?: boolean): boolean;
    allclose(other: Tensor, options: { rtol?: number; atol?: number; equal_nan?: boolean }): boolean;
    /** The largest element over the axes ``dim``; NaN wins, ties share the gradient. */
    amax(dim?: number | number[] | null, keepdim?: boolean): Tensor;
    amax(options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** The smallest element over the axes ``dim``; NaN wins, ties share the gradient. */
    amin(dim?: number | number[] | null, keepdim?: boolean): Tensor;
    amin(options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** (min, max): the smallest and the largest element over the axes ``dim``, all when absent; NaN wins, ties share the gradient. */
    aminmax(dim?: number | number[] | null, keepdim?: boolean): [Tensor, Tensor];
    aminmax(options: { dim?: number | number[] | null; keepdim?: boolean }): [Tensor, Tensor];
    /** Is an element not 0, over the axes ``dim``, all when absent?  bool, uint8 for uint8; of no elements: no. */
    any(dim?: number | number[] | null, keepdim?: boolean): Tensor;
    any(options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** The indices of ``sort``. */
    argsort(dim?: number, descending?: boolean): Tensor;
    argsort(options: { dim?: number; descending?: boolean }): Tensor;
    /** inverse sine. */
    asin(): Tensor;
    /** asin, written into input: its shape and dtype stay. */
    asin_(): Tensor;
    /** inverse hyperbolic sine. */
    asinh(): Tensor;
    /** asinh, written into input: its shape and dtype stay. */
    asinh_(): Tensor;
    /** inverse tangent. */
    atan(): Tensor;
    /** angle of the point (b, a); gradient 0 at (0, 0).  Shapes broadcast, dtypes promote. */
    atan2(other: Tensor | number | boolean): Tensor;
    /** atan2, written into input: its shape and dtype stay. */
    atan2_(other: Tensor | number | boolean): Tensor;
    /** atan, written into input: its shape and dtype stay. */
    atan_(): Tensor;
    /** inverse hyperbolic tangent. */
    atanh(): Tensor;
    /** atanh, written into input: its shape and dtype stay. */
    atanh_(): Tensor;
    /** beta input + alpha (batch1 @ batch2) : (B, M, N) or what broadcasts to it, (B, M, K), (B, K, N) -> (B, M, N).  With beta 0 input does not matter. */
    baddbmm(batch1: Tensor, batch2: Tensor, beta?: number, alpha?: number): Tensor;
    baddbmm(batch1: Tensor, batch2: Tensor, options: { beta?: number; alpha?: number }): Tensor;
    /** Fills the tensor with 1 with chance ``p``, which broadcasts (0.5 when absent), else 0. */
    bernoulli_(p?: Tensor | number | boolean | null, generator?: Generator | null): Tensor;
    bernoulli_(options: { p?: Tensor | number | boolean | null; generator?: Generator | null }): Tensor;
    /** How often 0, 1, 2, ... occur among integers along one axis, or the sum of their weights; at least ``minlength`` of them. */
    bincount(weights?: Tensor | null, minlength?: number): Tensor;
    bincount(options: { weights?: Tensor | null; minlength?: number }): Tensor;
    /** a & b.  Shapes broadcast, dtypes promote. */
    bitwise_and(other: Tensor | number | boolean): Tensor;
    /** bitwise_and, written into input: its shape and dtype stay. */
    bitwise_and_(other: Tensor | number | boolean): Tensor;
    /** a << b; 0 where b < 0 or b >= the width.  Shapes broadcast, dtypes promote. */
    bitwise_left_shift(other: Tensor | number | boolean): Tensor;
    /** bitwise_left_shift, written into input: its shape and dtype stay. */
    bitwise_left_shift_(other: Tensor | number | boolean): Tensor;
    /** ~x; bool: not x. */
    bitwise_not(): Tensor;
    /** bitwise_not, written into input: its shape and dtype stay. */
    bitwise_not_(): Tensor;
    /** a | b.  Shapes broadcast, dtypes promote. */
    bitwise_or(other: Tensor | number | boolean): Tensor;
    /** bitwise_or, written into input: its shape and dtype stay. */
    bitwise_or_(other: Tensor | number | boolean): Tensor;
    /** a >> b, keeps the sign.  Shapes broadcast, dtypes promote. */
    bitwise_right_shift(other: Tensor | number | boolean): Tensor;
    /** bitwise_right_shift, written into input: its shape and dtype stay. */
    bitwise_right_shift_(other: Tensor | number | boolean): Tensor;
    /** a ^ b.  Shapes broadcast, dtypes promote. */
    bitwise_xor(other: Tensor | number | boolean): Tensor;
    /** bitwise_xor, written into input: its shape and dtype stay. */
    bitwise_xor_(other: Tensor | number | boolean): Tensor;
    /** (B, M, K) (B, K, N) -> (B, M, N) */
    bmm(mat2: Tensor): Tensor;
    /** Fills the tensor with numbers of density sigma / (pi ((y - median)^2 + sigma^2)). */
    cauchy_(median?: number, sigma?: number, generator?: Generator | null): Tensor;
    cauchy_(options: { median?: number; sigma?: number; generator?: Generator | null }): Tensor;
    /** next integer above. */
    ceil(): Tensor;
    /** ceil, written into input: its shape and dtype stay. */
    ceil_(): Tensor;
    /** x where x > 0, else alpha (e^(x / alpha) - 1). */
    celu(alpha?: number): Tensor;
    celu(options: { alpha?: number }): Tensor;
    /** celu, written into input: its shape and dtype stay. */
    celu_(alpha?: number): Tensor;
    celu_(options: { alpha?: number }): Tensor;
    /** min(x, max); at the bound the gradient is x's.  Shapes broadcast, dtypes promote. */
    clamp_max(max: Tensor | number | boolean): Tensor;
    /** clamp_max, written into input: its shape and dtype stay. */
    clamp_max_(max: Tensor | number | boolean): Tensor;
    /** max(x, min); at the bound the gradient is x's.  Shapes broadcast, dtypes promote. */
    clamp_min(min: Tensor | number | boolean): Tensor;
    /** clamp_min, written into input: its shape and dtype stay. */
    clamp_min_(min: Tensor | number | boolean): Tensor;
    /** A copy in new memory; gradients flow through. */
    clone(): Tensor;
    /** The same values, in order and without gaps; no copy where that holds already. */
    contiguous(): Tensor;
    /** Writes ``other``, broadcast and cast, into the tensor. */
    copy_(other: Tensor | number | boolean): Tensor;
    /** |a| with the sign of b; gradient 0 at 0.  Shapes broadcast, dtypes promote. */
    copysign(other: Tensor | number | boolean): Tensor;
    /** copysign, written into input: its shape and dtype stay. */
    copysign_(other: Tensor | number | boolean): Tensor;
    /** cosine. */
    cos(): Tensor;
    /** cos, written into input: its shape and dtype stay. */
    cos_(): Tensor;
    /** hyperbolic cosine. */
    cosh(): Tensor;
    /** cosh, written into input: its shape and dtype stay. */
    cosh_(): Tensor;
    /** How many elements are not 0, over the axes ``dim``, all when absent; int64. */
    count_nonzero(dim?: number | number[] | null): Tensor;
    count_nonzero(options: { dim?: number | number[] | null }): Tensor;
    /** (values, indices): the largest element up to each along ``dim``, and where it is, the last of equals; NaN wins. */
    cummax(dim: number): [Tensor, Tensor];
    /** (values, indices): the smallest element up to each along ``dim``, and where it is, the last of equals; NaN wins. */
    cummin(dim: number): [Tensor, Tensor];
    /** y[k] = x[0] ... x[k] along ``dim``.  Integers and bool multiply as int64.  The gradient is exact where elements are 0. */
    cumprod(dim: number): Tensor;
    /** y[k] = x[0] + ... + x[k] along ``dim``.  Integers and bool sum as int64. */
    cumsum(dim: number): Tensor;
    /** degrees as radians. */
    deg2rad(): Tensor;
    /** deg2rad, written into input: its shape and dtype stay. */
    deg2rad_(): Tensor;
    /** A vector as a diagonal of a matrix of zeros; the diagonal of a matrix, as a copy. */
    diag(diagonal?: number): Tensor;
    diag(options: { diagonal?: number }): Tensor;
    /** The last axis as the diagonal of two new axes, dim1 and dim2 of the result, zeros elsewhere: (..., n) -> (..., n + |offset|, n + |offset|). */
    diag_embed(offset?: number, dim1?: number, dim2?: number): Tensor;
    diag_embed(options: { offset?: number; dim1?: number; dim2?: number }): Tensor;
    /** The view x[i, i + offset] of the axes dim1 and dim2, as the last axis. */
    diagonal(offset?: number, dim1?: number, dim2?: number): Tensor;
    diagonal(options: { offset?: number; dim1?: number; dim2?: number }): Tensor;
    /** y[k] = x[k + 1] - x[k] along ``dim``, n times over; prepend and append are put around x first.  Of bools: are they different? */
    diff(n?: number, dim?: number): Tensor;
    diff(options: { n?: number; dim?: number }): Tensor;
    /** the derivative of lgamma. */
    digamma(): Tensor;
    /** digamma, written into input: its shape and dtype stay. */
    digamma_(): Tensor;
    /** input / other; rounding_mode "trunc" rounds the result towards 0, "floor" down. */
    div(other: Tensor | number | boolean): Tensor;
    /** input / other, written into input; rounding_mode as in ``div``. */
    div_(other: Tensor | number | boolean): Tensor;
    /** (K) (K) -> () */
    dot(tensor: Tensor): Tensor;
    /** x where x > 0, else alpha (e^x - 1). */
    elu(alpha?: number): Tensor;
    elu(options: { alpha?: number }): Tensor;
    /** elu, written into input: its shape and dtype stay. */
    elu_(alpha?: number): Tensor;
    elu_(options: { alpha?: number }): Tensor;
    /** -x log(x); 0 at 0, -infinity below. */
    entr(): Tensor;
    /** entr, written into input: its shape and dtype stay. */
    entr_(): Tensor;
    /** a == b.  Shapes broadcast, dtypes promote. */
    eq(other: Tensor | number | boolean): Tensor;
    /** eq, written into input: its shape and dtype stay. */
    eq_(other: Tensor | number | boolean): Tensor;
    /** The same shape and elements?  NaN is equal to nothing. */
    equal(other: Tensor): boolean;
    /** error function. */
    erf(): Tensor;
    /** erf, written into input: its shape and dtype stay. */
    erf_(): Tensor;
    /** 1 - erf(x), exact where that is small. */
    erfc(): Tensor;
    /** erfc, written into input: its shape and dtype stay. */
    erfc_(): Tensor;
    /** exp(x^2) erfc(x). */
    erfcx(): Tensor;
    /** erfcx, written into input: its shape and dtype stay. */
    erfcx_(): Tensor;
    /** the inverse of erf; infinite at -1 and 1. */
    erfinv(): Tensor;
    /** erfinv, written into input: its shape and dtype stay. */
    erfinv_(): Tensor;
    /** e^x. */
    exp(): Tensor;
    /** 2^x. */
    exp2(): Tensor;
    /** exp2, written into input: its shape and dtype stay. */
    exp2_(): Tensor;
    /** exp, written into input: its shape and dtype stay. */
    exp_(): Tensor;
    /** A view of a larger shape: axes of size 1 repeat; -1 keeps a size. */
    expand(size: number[]): Tensor;
    expand(...size: number[]): Tensor;
    /** e^x - 1, exact near 0. */
    expm1(): Tensor;
    /** expm1, written into input: its shape and dtype stay. */
    expm1_(): Tensor;
    /** Fills the tensor with numbers of density lambd exp(-lambd y), y > 0. */
    exponential_(lambd?: number, generator?: Generator | null): Tensor;
    exponential_(options: { lambd?: number; generator?: Generator | null }): Tensor;
    /** Writes one value everywhere: a number, or a 0-d tensor. */
    fill_(value: number): Tensor;
    /** The axes start_dim ... end_dim as one. */
    flatten(start_dim?: number, end_dim?: number): Tensor;
    flatten(options: { start_dim?: number; end_dim?: number }): Tensor;
    /** A copy, backwards along the axes ``dims``; x[::-1] is a view. */
    flip(dims: number[]): Tensor;
    flip(...dims: number[]): Tensor;
    /** next integer below. */
    floor(): Tensor;
    /** floor, written into input: its shape and dtype stay. */
    floor_(): Tensor;
    /** floor(a / b); integers: an error where b is 0.  Shapes broadcast, dtypes promote. */
    floor_divide(other: Tensor | number | boolean): Tensor;
    /** floor_divide, written into input: its shape and dtype stay. */
    floor_divide_(other: Tensor | number | boolean): Tensor;
    /** the larger; a number wins over NaN; ties give the gradient to a.  Shapes broadcast, dtypes promote. */
    fmax(other: Tensor | number | boolean): Tensor;
    /** fmax, written into input: its shape and dtype stay. */
    fmax_(other: Tensor | number | boolean): Tensor;
    /** the smaller; a number wins over NaN; ties give the gradient to a.  Shapes broadcast, dtypes promote. */
    fmin(other: Tensor | number | boolean): Tensor;
    /** fmin, written into input: its shape and dtype stay. */
    fmin_(other: Tensor | number | boolean): Tensor;
    /** a - b trunc(a / b): a's sign; integers: an error where b is 0.  Shapes broadcast, dtypes promote. */
    fmod(other: Tensor | number | boolean): Tensor;
    /** fmod, written into input: its shape and dtype stay. */
    fmod_(other: Tensor | number | boolean): Tensor;
    /** x - trunc(x). */
    frac(): Tensor;
    /** frac, written into input: its shape and dtype stay. */
    frac_(): Tensor;
    /** out[i][j] = input[index[i][j]][j] for dim 0, and so on; index: int64, with input's axes. */
    gather(dim: number, index: Tensor): Tensor;
    /** a >= b.  Shapes broadcast, dtypes promote. */
    ge(other: Tensor | number | boolean): Tensor;
    /** ge, written into input: its shape and dtype stay. */
    ge_(other: Tensor | number | boolean): Tensor;
    /** x Phi(x), Phi the normal distribution; approximate="tanh": x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
    gelu(): Tensor;
    /** Fills the tensor with numbers of trials up to the first success: k with chance (1 - p)^(k - 1) p, k = 1, 2 ... */
    geometric_(p: number, generator?: Generator | null): Tensor;
    geometric_(p: number, options: { generator?: Generator | null }): Tensor;
    /** a > b.  Shapes broadcast, dtypes promote. */
    gt(other: Tensor | number | boolean): Tensor;
    /** gt, written into input: its shape and dtype stay. */
    gt_(other: Tensor | number | boolean): Tensor;
    /** min(max(x + 3, 0), 6) / 6. */
    hardsigmoid(): Tensor;
    /** hardsigmoid, written into input: its shape and dtype stay. */
    hardsigmoid_(): Tensor;
    /** x hardsigmoid(x). */
    hardswish(): Tensor;
    /** hardswish, written into input: its shape and dtype stay. */
    hardswish_(): Tensor;
    /** min(max(x, min_val), max_val); gradient 0 at the bounds. */
    hardtanh(min_val?: number, max_val?: number): Tensor;
    hardtanh(options: { min_val?: number; max_val?: number }): Tensor;
    /** hardtanh, written into input: its shape and dtype stay. */
    hardtanh_(min_val?: number, max_val?: number): Tensor;
    hardtanh_(options: { min_val?: number; max_val?: number }): Tensor;
    /** How many elements lie in each of ``bins`` equal parts of [min, max], or of where they lie when both are equal; NaN in none : (bins). */
    histc(bins?: number, min?: number, max?: number): Tensor;
    histc(options: { bins?: number; min?: number; max?: number }): Tensor;
    /** sqrt(a^2 + b^2), no overflow.  Shapes broadcast, dtypes promote. */
    hypot(other: Tensor | number | boolean): Tensor;
    /** hypot, written into input: its shape and dtype stay. */
    hypot_(other: Tensor | number | boolean): Tensor;
    /** modified Bessel function of the first kind, order 0. */
    i0(): Tensor;
    /** i0, written into input: its shape and dtype stay. */
    i0_(): Tensor;
    /** exp(-|x|) i0(x). */
    i0e(): Tensor;
    /** i0e, written into input: its shape and dtype stay. */
    i0e_(): Tensor;
    /** modified Bessel function of the first kind, order 1. */
    i1(): Tensor;
    /** i1, written into input: its shape and dtype stay. */
    i1_(): Tensor;
    /** exp(-|x|) i1(x). */
    i1e(): Tensor;
    /** i1e, written into input: its shape and dtype stay. */
    i1e_(): Tensor;
    /** A copy of input with alpha source[..., k, ...] added at ``index[k]`` along ``dim``, in order : (..., R, ...), (K), (..., K, ...). */
    index_add(dim: number, index: Tensor, source: Tensor): Tensor;
    /** ``index_add``, written into input. */
    index_add_(dim: number, index: Tensor, source: Tensor): Tensor;
    /** A copy of input with source[..., k, ...] at ``index[k]`` along ``dim``, the last where two go to one index : (..., R, ...), (K), (..., K, ...). */
    index_copy(dim: number, index: Tensor, source: Tensor): Tensor;
    /** ``index_copy``, written into input. */
    index_copy_(dim: number, index: Tensor, source: Tensor): Tensor;
    /** A copy of input with ``value``, a number or a 0-d tensor, at ``index`` along ``dim``. */
    index_fill(dim: number, index: Tensor, value: Tensor | number | boolean): Tensor;
    /** ``index_fill``, written into input. */
    index_fill_(dim: number, index: Tensor, value: Tensor | number | boolean): Tensor;
    /** A copy of input with out[indices] = values, which are cast and broadcast; with ``accumulate`` they are added, in order. */
    index_put(indices: Tensor[], values: Tensor, accumulate?: boolean): Tensor;
    index_put(indices: Tensor[], values: Tensor, options: { accumulate?: boolean }): Tensor;
    /** ``index_put``, written into input: input[indices] = values. */
    index_put_(indices: Tensor[], values: Tensor, accumulate?: boolean): Tensor;
    index_put_(indices: Tensor[], values: Tensor, options: { accumulate?: boolean }): Tensor;
    /** The elements at ``index``, int32 or int64 with at most one axis, along ``dim`` : (..., R, ...), (K) -> (..., K, ...). */
    index_select(dim: number, index: Tensor): Tensor;
    /** All dot products of rows: (..., K) (...', K) -> (..., ...'); with a 0-d operand the product. */
    inner(other: Tensor): Tensor;
    /** input == other, or |input - other| <= atol + rtol |other|; ``equal_nan``: NaN is close to NaN.  bool. */
    isclose(other: Tensor, rtol?: number, atol?: number, equal_nan?: boolean): Tensor;
    isclose(other: Tensor, options: { rtol?: number; atol?: number; equal_nan?: boolean }): Tensor;
    /** is x neither NaN nor an infinity?. */
    isfinite(): Tensor;
    /** is x an infinity?. */
    isinf(): Tensor;
    /** is x NaN?. */
    isnan(): Tensor;
    /** is x -infinity?. */
    isneginf(): Tensor;
    /** is x +infinity?. */
    isposinf(): Tensor;
    /** Blocks input[i, j] other : (M, N) (P, Q) -> (M P, N Q); up to 4 axes. */
    kron(other: Tensor): Tensor;
    /** (values, indices): the ``k``-th smallest along ``dim``, k from 1.  RuntimeError: there is no such element. */
    kthvalue(k: number, dim?: number, keepdim?: boolean): [Tensor, Tensor];
    kthvalue(k: number, options: { dim?: number; keepdim?: boolean }): [Tensor, Tensor];
    /** a <= b.  Shapes broadcast, dtypes promote. */
    le(other: Tensor | number | boolean): Tensor;
    /** le, written into input: its shape and dtype stay. */
    le_(other: Tensor | number | boolean): Tensor;
    /** x where x > 0, else negative_slope x. */
    leaky_relu(negative_slope?: number): Tensor;
    leaky_relu(options: { negative_slope?: number }): Tensor;
    /** leaky_relu, written into input: its shape and dtype stay. */
    leaky_relu_(negative_slope?: number): Tensor;
    leaky_relu_(options: { negative_slope?: number }): Tensor;
    /** a + weight (end - a).  Shapes broadcast, dtypes promote. */
    lerp(end: Tensor, weight: Tensor | number | boolean): Tensor;
    /** lerp, written into input: its shape and dtype stay. */
    lerp_(end: Tensor, weight: Tensor | number | boolean): Tensor;
    /** log |Gamma(x)|. */
    lgamma(): Tensor;
    /** lgamma, written into input: its shape and dtype stay. */
    lgamma_(): Tensor;
    /** natural logarithm. */
    log(): Tensor;
    /** logarithm to the base 10. */
    log10(): Tensor;
    /** log10, written into input: its shape and dtype stay. */
    log10_(): Tensor;
    /** log(1 + x), exact near 0. */
    log1p(): Tensor;
    /** log1p, written into input: its shape and dtype stay. */
    log1p_(): Tensor;
    /** logarithm to the base 2. */
    log2(): Tensor;
    /** log2, written into input: its shape and dtype stay. */
    log2_(): Tensor;
    /** log, written into input: its shape and dtype stay. */
    log_(): Tensor;
    /** log(ndtr(x)), also where that is small. */
    log_ndtr(): Tensor;
    /** log_ndtr, written into input: its shape and dtype stay. */
    log_ndtr_(): Tensor;
    /** Fills the tensor with e to normal numbers. */
    log_normal_(mean?: number, std?: number, generator?: Generator | null): Tensor;
    log_normal_(options: { mean?: number; std?: number; generator?: Generator | null }): Tensor;
    /** x - log(sum(exp(x))) along ``dim``; the same shape.  dtype: x is cast to it first. */
    log_softmax(dim: number): Tensor;
    /** log(e^a + e^b), no overflow.  Shapes broadcast, dtypes promote. */
    logaddexp(other: Tensor | number | boolean): Tensor;
    /** log2(2^a + 2^b), no overflow.  Shapes broadcast, dtypes promote. */
    logaddexp2(other: Tensor | number | boolean): Tensor;
    /** logaddexp2, written into input: its shape and dtype stay. */
    logaddexp2_(other: Tensor | number | boolean): Tensor;
    /** logaddexp, written into input: its shape and dtype stay. */
    logaddexp_(other: Tensor | number | boolean): Tensor;
    /** y[k] = log(exp(x[0]) + ... + exp(x[k])) along ``dim``, without overflow. */
    logcumsumexp(dim: number): Tensor;
    /** a and b, true where not 0.  Shapes broadcast, dtypes promote. */
    logical_and(other: Tensor | number | boolean): Tensor;
    /** logical_and, written into input: its shape and dtype stay. */
    logical_and_(other: Tensor | number | boolean): Tensor;
    /** not x. */
    logical_not(): Tensor;
    /** logical_not, written into input: its shape and dtype stay. */
    logical_not_(): Tensor;
    /** a or b.  Shapes broadcast, dtypes promote. */
    logical_or(other: Tensor | number | boolean): Tensor;
    /** logical_or, written into input: its shape and dtype stay. */
    logical_or_(other: Tensor | number | boolean): Tensor;
    /** either a or b.  Shapes broadcast, dtypes promote. */
    logical_xor(other: Tensor | number | boolean): Tensor;
    /** logical_xor, written into input: its shape and dtype stay. */
    logical_xor_(other: Tensor | number | boolean): Tensor;
    /** log(sigmoid(x)). */
    logsigmoid(): Tensor;
    /** logsigmoid, written into input: its shape and dtype stay. */
    logsigmoid_(): Tensor;
    /** log(sum(exp(x))) over the axes ``dim``, without overflow. */
    logsumexp(dim: number | number[], keepdim?: boolean): Tensor;
    logsumexp(dim: number | number[], options: { keepdim?: boolean }): Tensor;
    /** a < b.  Shapes broadcast, dtypes promote. */
    lt(other: Tensor | number | boolean): Tensor;
    /** lt, written into input: its shape and dtype stay. */
    lt_(other: Tensor | number | boolean): Tensor;
    /** ``value`` where the bool ``mask`` holds, else input; the mask broadcasts. */
    masked_fill(mask: Tensor, value: number): Tensor;
    /** ``masked_fill``, written into input. */
    masked_fill_(mask: Tensor, value: number): Tensor;
    /** The k-th position where the bool ``mask`` holds gets the k-th element of ``source``; elsewhere input; the mask broadcasts. */
    masked_scatter(mask: Tensor, source: Tensor): Tensor;
    /** ``masked_scatter``, written into input. */
    masked_scatter_(mask: Tensor, source: Tensor): Tensor;
    /** The elements where the bool ``mask`` holds, in order; both broadcast : (K). */
    masked_select(mask: Tensor): Tensor;
    /** (..., M, K) (..., K, N) -> (..., M, N), axes in front broadcast; vectors as in NumPy. */
    matmul(other: Tensor): Tensor;
    /** the larger; NaN wins, ties share the gradient.  Shapes broadcast, dtypes promote. */
    maximum(other: Tensor | number | boolean): Tensor;
    /** maximum, written into input: its shape and dtype stay. */
    maximum_(other: Tensor | number | boolean): Tensor;
    /** The mean over the axes ``dim``, all when absent. */
    mean(dim?: number | number[] | null, keepdim?: boolean): Tensor;
    mean(options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** the smaller; NaN wins, ties share the gradient.  Shapes broadcast, dtypes promote. */
    minimum(other: Tensor | number | boolean): Tensor;
    /** minimum, written into input: its shape and dtype stay. */
    minimum_(other: Tensor | number | boolean): Tensor;
    /** x tanh(softplus(x)). */
    mish(): Tensor;
    /** mish, written into input: its shape and dtype stay. */
    mish_(): Tensor;
    /** (M, K) (K, N) -> (M, N) */
    mm(mat2: Tensor): Tensor;
    /** (values, indices): the most frequent element along ``dim``, of those the smallest, and where it is first. */
    mode(dim?: number, keepdim?: boolean): [Tensor, Tensor];
    mode(options: { dim?: number; keepdim?: boolean }): [Tensor, Tensor];
    /** a * b.  Shapes broadcast, dtypes promote. */
    mul(other: Tensor | number | boolean): Tensor;
    /** mul, written into input: its shape and dtype stay. */
    mul_(other: Tensor | number | boolean): Tensor;
    /** Positions drawn by their weights : (N) or (M, N) -> (num_samples) or (M, num_samples), int64.  Weights need not sum to 1. */
    multinomial(num_samples: number, replacement?: boolean, generator?: Generator | null): Tensor;
    multinomial(num_samples: number, options: { replacement?: boolean; generator?: Generator | null }): Tensor;
    /** (M, K) (K) -> (M) */
    mv(vec: Tensor): Tensor;
    /** The mean of the elements that are not NaN, over the axes ``dim``, all when absent; NaN where all are. */
    nanmean(dim?: number | number[] | null, keepdim?: boolean): Tensor;
    nanmean(options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** The sum over the axes ``dim``, all when absent, with NaN counted as 0.  Integers and bool sum as int64. */
    nansum(dim?: number | number[] | null, keepdim?: boolean): Tensor;
    nansum(options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** The view x[start : start + length] along ``dim``. */
    narrow(dim: number, start: number, length: number): Tensor;
    /** the normal distribution function. */
    ndtr(): Tensor;
    /** ndtr, written into input: its shape and dtype stay. */
    ndtr_(): Tensor;
    /** the inverse of ndtr: the normal distribution's quantiles. */
    ndtri(): Tensor;
    /** ndtri, written into input: its shape and dtype stay. */
    ndtri_(): Tensor;
    /** a != b.  Shapes broadcast, dtypes promote. */
    ne(other: Tensor | number | boolean): Tensor;
    /** ne, written into input: its shape and dtype stay. */
    ne_(other: Tensor | number | boolean): Tensor;
    /** -x. */
    neg(): Tensor;
    /** neg, written into input: its shape and dtype stay. */
    neg_(): Tensor;
    /** The next number of the dtype after input towards other.  Shapes broadcast, dtypes promote; no gradient. */
    nextafter(other: Tensor | number | boolean): Tensor;
    /** Where input is not 0, in order : int64 (K, ndim); with ``as_tuple`` a tensor (K) for each axis, as input[...] takes them. */
    nonzero(): Tensor;
    /** Fills the tensor with normal numbers. */
    normal_(mean?: number, std?: number, generator?: Generator | null): Tensor;
    normal_(options: { mean?: number; std?: number; generator?: Generator | null }): Tensor;
    /** (M) (N) -> (M, N): all products */
    outer(vec2: Tensor): Tensor;
    /** A view with the axes in the order given. */
    permute(dims: number[]): Tensor;
    permute(...dims: number[]): Tensor;
    /** input to the power exponent; 0 to the 0 is 1 */
    pow(exponent: Tensor | number | boolean): Tensor;
    /** The product over the axes ``dim``, all when absent.  Integers and bool multiply as int64.  The gradient is exact where elements are 0. */
    prod(dim?: number | number[] | null, keepdim?: boolean): Tensor;
    prod(options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** radians as degrees. */
    rad2deg(): Tensor;
    /** rad2deg, written into input: its shape and dtype stay. */
    rad2deg_(): Tensor;
    /** 1 / x. */
    reciprocal(): Tensor;
    /** reciprocal, written into input: its shape and dtype stay. */
    reciprocal_(): Tensor;
    /** max(x, 0); gradient 0 at 0. */
    relu(): Tensor;
    /** min(max(x, 0), 6). */
    relu6(): Tensor;
    /** relu6, written into input: its shape and dtype stay. */
    relu6_(): Tensor;
    /** relu, written into input: its shape and dtype stay. */
    relu_(): Tensor;
    /** a - b floor(a / b): b's sign; integers: an error where b is 0.  Shapes broadcast, dtypes promote. */
    remainder(other: Tensor | number | boolean): Tensor;
    /** remainder, written into input: its shape and dtype stay. */
    remainder_(other: Tensor | number | boolean): Tensor;
    /** The tensor repeats[i] times along axis i; further axes come in front. */
    repeat(repeats: number[]): Tensor;
    repeat(...repeats: number[]): Tensor;
    /** The same elements in the same order in another shape; one size may be -1.  A view where possible. */
    reshape(shape: number[]): Tensor;
    reshape(...shape: number[]): Tensor;
    /** The nearest number of ``decimals`` digits after the point, before it where negative; ties to even.  The gradient is 0. */
    round(): Tensor;
    /** 1 / sqrt(x). */
    rsqrt(): Tensor;
    /** rsqrt, written into input: its shape and dtype stay. */
    rsqrt_(): Tensor;
    /** A copy of input with out[index[i][j]][j] = src[i][j] for dim 0, and so on; src or value may be one number for all.  Of what goes to */
    scatter(dim: number, index: Tensor, src?: Tensor | number | boolean | null): Tensor;
    scatter(dim: number, index: Tensor, options: { src?: Tensor | number | boolean | null }): Tensor;
    /** ``scatter``, written into input. */
    scatter_(dim: number, index: Tensor, src?: Tensor | number | boolean | null): Tensor;
    scatter_(dim: number, index: Tensor, options: { src?: Tensor | number | boolean | null }): Tensor;
    /** A copy of input with out[index[i][j]][j] += src[i][j] for dim 0, and so on, in order: the same bits every time. */
    scatter_add(dim: number, index: Tensor, src: Tensor): Tensor;
    /** ``scatter_add``, written into input. */
    scatter_add_(dim: number, index: Tensor, src: Tensor): Tensor;
    /** The view x[index] along ``dim``, without that axis. */
    select(dim: number, index: number): Tensor;
    /** 1.0507 (x where x > 0, else 1.6733 (e^x - 1)) (Klambauer et al. 2017). */
    selu(): Tensor;
    /** selu, written into input: its shape and dtype stay. */
    selu_(): Tensor;
    /** 1 / (1 + e^-x). */
    sigmoid(): Tensor;
    /** sigmoid, written into input: its shape and dtype stay. */
    sigmoid_(): Tensor;
    /** -1, 0 or 1. */
    sign(): Tensor;
    /** sign, written into input: its shape and dtype stay. */
    sign_(): Tensor;
    /** is x negative, or -0?. */
    signbit(): Tensor;
    /** x sigmoid(x). */
    silu(): Tensor;
    /** silu, written into input: its shape and dtype stay. */
    silu_(): Tensor;
    /** sine. */
    sin(): Tensor;
    /** sin, written into input: its shape and dtype stay. */
    sin_(): Tensor;
    /** sin(pi x) / (pi x); 1 at 0. */
    sinc(): Tensor;
    /** sinc, written into input: its shape and dtype stay. */
    sinc_(): Tensor;
    /** hyperbolic sine. */
    sinh(): Tensor;
    /** sinh, written into input: its shape and dtype stay. */
    sinh_(): Tensor;
    /** exp(x) / sum(exp(x)) along ``dim``; the same shape.  dtype: x is cast to it first. */
    softmax(dim: number): Tensor;
    /** log(1 + e^(beta x)) / beta; x where beta x > threshold. */
    softplus(beta?: number, threshold?: number): Tensor;
    softplus(options: { beta?: number; threshold?: number }): Tensor;
    /** softplus, written into input: its shape and dtype stay. */
    softplus_(beta?: number, threshold?: number): Tensor;
    softplus_(options: { beta?: number; threshold?: number }): Tensor;
    /** x / (1 + |x|). */
    softsign(): Tensor;
    /** softsign, written into input: its shape and dtype stay. */
    softsign_(): Tensor;
    /** (values, indices): the elements in order along ``dim``, and where they were, int64.  Equal elements keep their order, with or without ``stable``. */
    sort(dim?: number, descending?: boolean): [Tensor, Tensor];
    sort(options: { dim?: number; descending?: boolean }): [Tensor, Tensor];
    /** square root. */
    sqrt(): Tensor;
    /** sqrt, written into input: its shape and dtype stay. */
    sqrt_(): Tensor;
    /** x^2. */
    square(): Tensor;
    /** square, written into input: its shape and dtype stay. */
    square_(): Tensor;
    /** A view without the axes of size 1: all of them, or those of ``dim`` that have it. */
    squeeze(dim?: number | number[] | null): Tensor;
    squeeze(options: { dim?: number | number[] | null }): Tensor;
    /** input - alpha other */
    sub(other: Tensor | number | boolean): Tensor;
    /** input - alpha other, written into input. */
    sub_(other: Tensor | number | boolean): Tensor;
    /** The sum over the axes ``dim``, all when absent; keepdim leaves them with size 1.  Integers and bool sum as int64. */
    sum(dim?: number | number[] | null, keepdim?: boolean): Tensor;
    sum(options: { dim?: number | number[] | null; keepdim?: boolean }): Tensor;
    /** The elements at ``index`` of input as one vector, in index's shape; negative indices count from the end. */
    take(index: Tensor): Tensor;
    /** tangent. */
    tan(): Tensor;
    /** tan, written into input: its shape and dtype stay. */
    tan_(): Tensor;
    /** hyperbolic tangent. */
    tanh(): Tensor;
    /** tanh, written into input: its shape and dtype stay. */
    tanh_(): Tensor;
    /** The tensor dims[i] times along axis i, counted from the last one; axes not named are not repeated. */
    tile(dims: number[]): Tensor;
    tile(...dims: number[]): Tensor;
    /** (values, indices): the ``k`` largest along ``dim``, from the largest down, or the smallest; of equal ones the first.  In order whatever ``sorted`` says. */
    topk(k: number, dim?: number, largest?: boolean): [Tensor, Tensor];
    topk(k: number, options: { dim?: number; largest?: boolean }): [Tensor, Tensor];
    /** The sum of a matrix's diagonal; integers sum as int64. */
    trace(): Tensor;
    /** A view with two axes swapped. */
    transpose(dim0: number, dim1: number): Tensor;
    /** Zeros above the diagonal of the last two axes. */
    tril(diagonal?: number): Tensor;
    tril(options: { diagonal?: number }): Tensor;
    /** ``tril``, written into input. */
    tril_(diagonal?: number): Tensor;
    tril_(options: { diagonal?: number }): Tensor;
    /** Zeros below the diagonal of the last two axes. */
    triu(diagonal?: number): Tensor;
    triu(options: { diagonal?: number }): Tensor;
    /** ``triu``, written into input. */
    triu_(diagonal?: number): Tensor;
    triu_(options: { diagonal?: number }): Tensor;
    /** next integer towards 0. */
    trunc(): Tensor;
    /** trunc, written into input: its shape and dtype stay. */
    trunc_(): Tensor;
    /** One axis as several, of the given sizes; one may be -1. */
    unflatten(dim: number, sizes: number[]): Tensor;
    /** A view of the windows of ``size`` positions of an axis, ``step`` apart: the axis counts them, their elements are a new last axis. */
    unfold(dimension: number, size: number, step: number): Tensor;
    /** Fills the tensor with uniform numbers in [from, to). */
    uniform_(from__?: number, to?: number, generator?: Generator | null): Tensor;
    uniform_(options: { from_?: number; to?: number; generator?: Generator | null }): Tensor;
    /** A view with one more axis of size 1, at ``dim``. */
    unsqueeze(dim: number): Tensor;
    /** A view in another shape, an error where a copy would be needed; one size may be -1.  ``view(dtype)``: the same bytes as */
    view(size: number[]): Tensor;
    view(...size: number[]): Tensor;
    /** input where condition, else other; condition is bool.  ``where(condition)`` is ``nonzero(condition, as_tuple=True)``. */
    where(input?: Tensor | number | boolean | null, other?: Tensor | number | boolean | null): Tensor;
    where(options: { input?: Tensor | number | boolean | null; other?: Tensor | number | boolean | null }): Tensor;
    /** a log(1 + b); 0 where a is 0 and b is a number.  Shapes broadcast, dtypes promote. */
    xlog1py(other: Tensor | number | boolean): Tensor;
    /** xlog1py, written into input: its shape and dtype stay. */
    xlog1py_(other: Tensor | number | boolean): Tensor;
    /** a log(b); 0 where a is 0 and b is a number.  Shapes broadcast, dtypes promote. */
    xlogy(other: Tensor | number | boolean): Tensor;
    /** xlogy, written into input: its shape and dtype stay. */
    xlogy_(other: Tensor | number | boolean): Tensor;
    /** Hurwitz's zeta function: the sum of (q + k)^-x, k = 0, 1 ...; x > 1, q > 0, no gradient for x.  Shapes broadcast, dtypes promote. */
    zeta(q: Tensor | number | boolean): Tensor;
    /** zeta, written into input: its shape and dtype stay. */
    zeta_(q: Tensor | number | boolean): Tensor;
}
