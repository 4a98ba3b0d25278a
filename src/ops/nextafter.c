/* nextafter.c - the next number of a float dtype towards another one, for every dtype on its bits: read as integers, with the
 * negative ones turned around, neighbours differ by 1.  No gradient: PyTorch has none, and it is a step of rounding. */
#include "compose.h"
#include "walk.h"

/* (bits, step; least) -> turn(turn(bits) + step), turn(i) = i < 0 ? least - i : i.  Values 0 bits, 1 step, 2 the least integer, 3 zero. */
static cr_program next_bits(const double *consts) {
    static const cr_instr instructions[] = {
        {CR_OP_LT, 0, 3, -1}, {CR_OP_SUB, 2, 0, -1}, {CR_OP_SEL, 4, 5, 0}, {CR_OP_ADD, 6, 1, -1},
        {CR_OP_LT, 7, 3, -1}, {CR_OP_SUB, 2, 7, -1}, {CR_OP_SEL, 8, 9, 7},
    };
    return (cr_program){
        .name = "nextafter", .doc = "the neighbour of a float, on its bits", .rule = CR_RULE_ANY, .n_in = 2, .n_const = 2, .n_instr = 7, .n_out = 1,
        .consts = consts, .instr = instructions, .out = {10}, .fused = -1, .refs = -1,
    };
}

/* The same memory as another dtype of the same size. */
static cr_tensor *seen_as(const cr_tensor *x, cr_dtype dt) {
    if (!x) return NULL;
    cr_meta m = cr_meta_of(x);
    m.dtype = dt;
    m.offset = x->offset;
    m.strided = true;
    cr_strides_contiguous(x->ndim, x->shape, m.strides);
    return cr_tensor_alias(x, &m);
}

cr_tensor *cr_nextafter(const cr_tensor *a, const cr_tensor *b) {
    static const char op[] = "nextafter";
    cr_dtype compute, dt;
    int n;
    int64_t shape[CR_MAX_DIMS];
    if (!cr_given(op, "a", a) || !cr_given(op, "b", b)) return NULL;
    if (cr_rule_dtypes(cr_program_find("atan2"), (const cr_tensor *const[]){a, b}, &compute, &dt) != CR_OK) return NULL;
    if (cr_broadcast(op, a->ndim, a->shape, b->ndim, b->shape, &n, shape) != CR_OK) return NULL;
    if (a->dev != b->dev && !((a->flags | b->flags) & CR_FLAG_WEAK))
        return cr_fail(CR_BAD_VALUE, op, "operands on two devices, %s and %s", a->dev->name, b->dev->name), NULL;
    const cr_device *dev = (a->flags & CR_FLAG_WEAK ? b : a)->dev;
    const cr_dtype whole = cr_dtype_size(dt) == 8 ? CR_I64 : cr_dtype_size(dt) == 4 ? CR_I32 : CR_I16;
    const double consts[] = {whole == CR_I64 ? -0x1p63 : whole == CR_I32 ? -0x1p31 : -0x1p15, 0};
    const cr_program next = next_bits(consts);
    cr_scope_begin();
    const bool recording = cr_set_grad_enabled(false);
    cr_tensor *x = cr_contiguous(cr_expand(cr_to(a, dt, dev), n, shape)), *to = cr_expand(cr_to(b, dt, dev), n, shape);
    cr_tensor *step = sub(cr_to(cr_gt(to, x), CR_I8, dev), cr_to(cr_lt(to, x), CR_I8, dev)), *bits = seen_as(x, whole);
    cr_tensor *y = bits && step ? seen_as(cr_apply_program(&next, (const cr_tensor *const[]){bits, step}, NULL), dt) : NULL;
    y = cr_where(cr_ne(x, to), cr_where(cr_logical_or(cr_isnan(x), cr_isnan(to)), add(x, to), y), to);
    cr_set_grad_enabled(recording);
    return cr_leave(y);
}
