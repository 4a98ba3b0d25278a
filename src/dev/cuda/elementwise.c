/* elementwise.c - programs as CUDA C, compiled once for each program, its dtypes and class of shapes.
 *
 * Strides, addresses, parameters and constants are data, not text.  So one kernel serves all shapes of
 * a class, and the compiler cannot fold constants in a way that ignores NaN (x * 0 is not 0).  Limited
 * by bytes: each byte is moved once, in whole sectors, with 16 bytes of the widest operand in flight
 * in every thread.  There are two classes.  Rows: along the innermost axis a thread has packs of up to
 * 16 bytes, as addresses, strides and sizes allow, or single elements of as many bytes; it computes
 * the address once for a pack, without a division.  Tiles: an input that is dense along another axis,
 * such as a transposed one, passes through shared memory, so that neighbouring threads access
 * neighbouring elements. Walks of one class that are given together, such as an optimizer's step over
 * all parameters, share launches: as many as an argument holds.
 *
 * The compiler fuses no product with a sum, the text does (cr_joined_operand): a result does not depend on what else
 * the program computes, so plans may join programs. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- instructions: $a $b $c are the operands, $f: f where functions of f32 have one, C the type of values */
static const char *const float_ops[CR_OP_COUNT] = {
#define TEXT(OP, op, operands, value, cuda, wgsl, by) [CR_OP_##OP] = cuda,
    CR_FLOAT_OPCODES(TEXT)
};

/* In 64 bits without a sign, where nothing overflows; $w: the bits of the dtype, $F: the fault of a
 * division by zero. */
static const char *const int_ops[CR_OP_COUNT] = {
    [CR_OP_ADD] = "(u64)$a + (u64)$b",
    [CR_OP_SUB] = "(u64)$a - (u64)$b",
    [CR_OP_MUL] = "(u64)$a * (u64)$b",
    [CR_OP_NEG] = "0 - (u64)$a",
    [CR_OP_ABS] = "$a < 0 ? 0 - (u64)$a : (u64)$a",
    [CR_OP_SIGN] = "($a > 0) - ($a < 0)",
    [CR_OP_COPYSIGN] = "($a < 0) == ($b < 0) ? (u64)$a : 0 - (u64)$a",
    [CR_OP_MAX] = "$a < $b ? $b : $a",
    [CR_OP_MIN] = "$b < $a ? $b : $a",
    [CR_OP_POW] = "i_pow($a, $b)",
    [CR_OP_DIV] = "i_div($a, divisor($b, $F))",
    [CR_OP_TDIV] = "i_div($a, divisor($b, $F))",
    [CR_OP_FMOD] = "i_mod($a, divisor($b, $F))",
    [CR_OP_REM] = "i_rem($a, divisor($b, $F))",
    [CR_OP_FDIV] = "i_floor_div($a, divisor($b, $F))",
    [CR_OP_FLOOR] = "$a",
    [CR_OP_CEIL] = "$a",
    [CR_OP_ROUND] = "$a",
    [CR_OP_TRUNC] = "$a",
    [CR_OP_ISNAN] = "0",
    [CR_OP_ISINF] = "0",
    [CR_OP_EQ] = "$a == $b",
    [CR_OP_NE] = "$a != $b",
    [CR_OP_LT] = "$a < $b",
    [CR_OP_LE] = "$a <= $b",
    [CR_OP_GT] = "$a > $b",
    [CR_OP_GE] = "$a >= $b",
    [CR_OP_SEL] = "$a != 0 ? $b : $c",
    [CR_OP_BAND] = "$a & $b",
    [CR_OP_BOR] = "$a | $b",
    [CR_OP_BXOR] = "$a ^ $b",
    [CR_OP_BNOT] = "~$a",
    [CR_OP_SHL] = "(u64)$b >= $w ? 0 : (u64)$a << ($b & 63)",
    [CR_OP_SHR] = "(u64)$b >= $w ? 0 - (u64)($a < 0) : (u64)((i64)$a >> ($b & 63))",
};

static const char *op_text(int op, cr_dtype compute) {
    if (cr_dtype_is_float(compute)) return float_ops[op];
    if (compute == CR_BOOL && op == CR_OP_BNOT) return "!$a";
    if (compute == CR_U64 && op == CR_OP_SHR) return "$b >= 64 ? 0 : $a >> ($b & 63)";
    return int_ops[op];
}

static bool has_division(const cr_program *p) {
    for (int i = 0; i < p->n_instr; i++)
        if (cr_opcode_divides(p->instr[i].op)) return true;
    return false;
}

/* A sum and its product (cr_joined_operand). */
static void add_joined(cr_out *t, const cr_program *p, cr_dtype compute, int i, int k) {
    const cr_instr *s = &p->instr[i], *product = &p->instr[(k ? s->b : s->a) - cr_first_result(p)];
    const bool minus = s->op == CR_OP_SUB;
    cr_out_format(t, "const C v%d = fma%s(%sv%d, v%d, %sv%d);\n", cr_first_result(p) + i, compute == CR_F64 ? "" : "f",
                  minus && k ? "-" : "", product->a, product->b, minus && !k ? "-" : "", k ? s->a : s->b);
}

static void add_instruction(cr_out *t, cr_dtype compute, int result, const cr_instr *s) {
    cr_out_format(t, "const C v%d = (C)(", result);
    for (const char *c = op_text(s->op, compute); *c; c++) {
        if (*c != '$') { cr_out_format(t, "%c", *c); continue; }
        switch (*++c) {
            case 'a': cr_out_format(t, "v%d", s->a); break;
            case 'b': cr_out_format(t, "v%d", s->b); break;
            case 'c': cr_out_format(t, "v%d", s->c); break;
            case 'f': cr_out_format(t, compute == CR_F64 ? "" : "f"); break;
            case 'w': cr_out_format(t, "%d", compute == CR_BOOL ? 1 : 8 * (int)cr_dtype_size(compute)); break;
            case 'F': cr_out_format(t, "(fault *)p.w[0]"); break;
            default: CR_ASSERT(false && "an unknown $ in the table of instructions");
        }
    }
    cr_out_format(t, ");\n");
}

/* ---- a walk as a kernel */
/* BYTES of the widest operand in a thread; most inputs of a kernel that pass through shared memory */
enum { OPERANDS = CR_MAX_OUTPUTS + CR_MAX_INPUTS, BYTES = 16, TILES = 4 };
typedef enum access {                               /* an operand along the innermost axis */
    DENSE,
    COLUMN,                                         /* one element: stride 0 */
    APART,                                          /* any other stride */
    TRANSPOSED,                                     /* the same, but dense along the axis before it: through shared
                                                     * memory */
    SAME,                                           /* one element for all axes */
    NUMBER                                          /* a number on the host */
} access;
typedef struct plan {                               /* everything about a walk that its kernel is compiled for, and
                                                     * the order of its axes */
    const cr_walk *w;
    int operands;                                   /* results first */
    bool wide, divides;                             /* wide: needs 64-bit indices; divides: integers */
    access of[OPERANDS];
    int ndim, axis[CR_MAX_DIMS];                    /* at least 1; the first result is dense along the last, where it
                                                     * is dense at all */
    int elements, packs;                            /* of a pack; packs that a thread reads at once */
    int across, along;                              /* size of a tile along the last axis and the axis before it; 0:
                                                     * there are no tiles */
    int at[OPERANDS];                               /* of each operand, in the words of a walk: its address, or
                                                     * value, and strides */
    /* Words of the argument: fault, params, constants; then for each walk the end of its blocks,
     * elements, size and reciprocal of each axis but the first, size of tiled axes, operands. */
    int walk_at, walk_words;
} plan;
enum { WORDS = 400, SIZES_AT = 2 };                 /* words of an argument; SIZES_AT: in the words of a walk */

static const cr_arg *operand(const cr_walk *w, int k) { return k < w->n_out ? &w->out[k] : &w->in[k - w->n_out]; }
static size_t size_of(const plan *l, int k) { return cr_dtype_size(operand(l->w, k)->dtype); }
static cuda_address address(const cr_arg *a) {
    return cuda_base(a->storage) + (cuda_address)a->offset * cr_dtype_size(a->dtype);
}
static int64_t stride(const plan *l, int k, int d) { return operand(l->w, k)->strides[l->axis[d]]; }
static int64_t shape(const plan *l, int d) { return l->w->numel == 1 ? 1 : l->w->shape[l->axis[d]]; }
/* in words */
static int strides_of(const plan *l, int k) { return l->of[k] >= SAME ? 0 : l->of[k] < APART ? l->ndim - 1 : l->ndim; }

/* Moves axis d to position `to`; the axes between move up. */
static void move_axis(plan *l, int d, int to) {
    const int axis = l->axis[d];
    for (; d < to; d++) l->axis[d] = l->axis[d + 1];
    l->axis[to] = axis;
}

/* The axis along which operand k is dense, or -1. */
static int dense_axis(const plan *l, int k) {
    int d = l->ndim - 1;
    while (d >= 0 && stride(l, k, d) != 1) d--;
    return d;
}

static access access_of(const plan *l, int k) {
    const int last = l->ndim - 1;
    bool moves = false;
    if (operand(l->w, k)->data) return NUMBER;
    if (l->w->numel == 1) return k < l->w->n_out ? DENSE : SAME;
    for (int d = 0; d <= last; d++) moves |= stride(l, k, d) != 0;
    if (!moves) return SAME;
    return stride(l, k, last) == 1 ? DENSE : stride(l, k, last) ? APART : COLUMN;
}

static bool fits_plan(const plan *l, int k) {
    int64_t far = 0;
    for (int d = 0; d < l->ndim; d++) far += llabs(stride(l, k, d)) * (shape(l, d) - 1);
    return far < INT32_MAX;
}

/* Tiles of as many elements as the threads of a block have, nearly square but no wider than the walk.
 * A matrix smaller than half a tile stays in the cache anyway. */
static void plan_tiles(plan *l, int each) {
    const int last = l->ndim - 1, elements = each * CUDA_GROUP;
    int d = -1, tiles = 0;
    for (int k = l->w->n_out; k < l->operands && d < 0; k++)
        if (l->of[k] == APART) d = dense_axis(l, k);
    if (d < 0 || l->of[0] != DENSE || shape(l, d) * shape(l, last) < elements / 2) return;
    move_axis(l, d, last - 1);
    for (int k = l->w->n_out; k < l->operands; k++)
        if (l->of[k] == APART && stride(l, k, last - 1) == 1 && tiles++ < TILES) l->of[k] = TRANSPOSED;
    for (l->along = each > 4 ? 64 : 32; l->along / 2 >= shape(l, last - 1); l->along /= 2) {}
    for (l->across = elements / l->along; l->across / 2 >= shape(l, last); l->across /= 2) {}
    l->along = elements / l->across;
}

/* The largest pack that divides every dense row and its offset; the end of a single row may lie within a pack. */
static int elements_of(const plan *l, int most) {
    uint64_t all = l->ndim > 1 ? (uint64_t)shape(l, l->ndim - 1) : 0;
    for (int k = 0; k < l->operands; k++) {
        if (l->of[k] == APART) return 1;
        if (l->of[k] != DENSE) continue;
        all |= address(operand(l->w, k)) / size_of(l, k);
        for (int d = 0; d < l->ndim - 1; d++) all |= (uint64_t)stride(l, k, d);
    }
    while (all % (uint64_t)most) most /= 2;
    return most;
}

static plan plan_of(const cr_walk *w) {
    plan l = {.w = w,
              .operands = w->n_out + w->n_in,
              .wide = w->numel >= INT32_MAX,
              .ndim = w->ndim && w->numel > 1 ? w->ndim : 1,
              .elements = 1};
    size_t widest = 1;
    for (int d = 0; d < l.ndim; d++) l.axis[d] = d;
    if (dense_axis(&l, 0) >= 0) move_axis(&l, dense_axis(&l, 0), l.ndim - 1);
    for (int k = 0; k < l.operands; k++) {
        l.of[k] = access_of(&l, k);
        if (l.of[k] >= SAME) continue;
        l.wide |= !fits_plan(&l, k);
        if (size_of(&l, k) > widest) widest = size_of(&l, k);
    }
    const int each = BYTES / (int)widest;
    plan_tiles(&l, each);
    if (!l.across) l.elements = elements_of(&l, each);
    l.packs = l.across || each / l.elements < 4 ? each / l.elements : 4;
    l.divides = !cr_dtype_is_float(w->compute) && has_division(w->program);
    l.walk_at = 1 + w->program->n_param + w->program->n_const;
    l.walk_words = SIZES_AT + 2 * (l.ndim - 1) + (l.across ? 2 : 0);
    for (int k = 0; k < l.operands; k++) {
        l.at[k] = l.walk_words;
        l.walk_words += 1 + strides_of(&l, k);
    }
    return l;
}

static void key_of(cuda_key *k, const plan *l) {
    const cr_walk *w = l->w;
    const cr_program *p = w->program;
    k->n = 0, k->full = false;
    const int16_t head[] = {'e',
                            (int16_t)w->compute,
                            l->wide,
                            (int16_t)l->elements,
                            (int16_t)l->packs,
                            (int16_t)l->across,
                            (int16_t)l->ndim,
                            (int16_t)w->n_out,
                            (int16_t)w->n_in,
                            (int16_t)p->n_param};
    cr_cuda_key_add(k, head, sizeof head);
    for (int i = 0; i < l->operands; i++)
        cuda_key_byte(k, (l->of[i] == NUMBER ? 0 : (int)operand(w, i)->dtype) + 32 * (int)l->of[i]);
    cr_cuda_key_add(k, &p->n_const, sizeof p->n_const);
    cr_cuda_key_add(k, p->out, sizeof *p->out * (size_t)w->n_out);
    for (int i = 0; i < p->n_instr; i++) {
        const int16_t part[] = {p->instr[i].op, p->instr[i].a, p->instr[i].b, p->instr[i].c};
        cr_cuda_key_add(k, part, sizeof part);
    }
}

/* ---- its text */

static const char *type_of(const plan *l, int k) { return cr_cuda_type(operand(l->w, k)->dtype); }

/* one(p, inputs as values, results): the program. */
static void add_program(cr_out *t, const plan *l, int64_t walks) {
    const cr_walk *w = l->w;
    const cr_program *p = w->program;
    cr_out_format(t, "typedef %s C;\nstruct words { u64 w[%d]; };\nD void one(const words &p", cr_cuda_wide(w->compute),
                  walks > 1 ? WORDS : l->walk_at + l->walk_words);
    for (int i = 0; i < w->n_in; i++) cr_out_format(t, ", const C v%d", i);
    for (int k = 0; k < w->n_out; k++) cr_out_format(t, ", %s &y%d", type_of(l, k), k);
    cr_out_format(t, ") {\n");
    for (int i = 0; i < p->n_param + p->n_const; i++)
        cr_out_format(t, "const C v%d = as<C>(p.w[%d]);\n", p->n_in + i, 1 + i);
    const bool joins = cr_dtype_is_float(w->compute);
    for (int i = 0; i < p->n_instr; i++) {
        const int k = joins ? cr_joined_operand(p, i) : -1;
        if (k >= 0) add_joined(t, p, w->compute, i, k);
        else if (!joins || !cr_is_joined(p, i)) add_instruction(t, w->compute, cr_first_result(p) + i, &p->instr[i]);
    }
    for (int k = 0; k < w->n_out; k++) cr_out_format(t, "y%d = cast<%s>(v%d);\n", k, type_of(l, k), p->out[k]);
    cr_out_format(t, "}\n");
}

/* The coordinates of the n-th pack in order of rows; or of the n-th tile, whose last two axes are counted in tiles. */
static void add_coordinates(cr_out *t, const plan *l, const char *n) {
    const char *const name = l->across ? "t" : "c";
    cr_out_format(t, "I rest = %s;\n", n);
    for (int d = l->ndim - 1; d > 0; d--) {
        const int size = SIZES_AT + 2 * (d - 1);
        cr_out_format(t, "const I q%d = divide(rest, p.w[at + %d]), %s%d = rest - q%d * (I)p.w[at + %d]; rest = q%d;\n",
                      d, size + 1, name, d, d, size, d);
    }
    cr_out_format(t, "const I %s0 = rest;\n", name);
}

static void add_first(cr_out *t, const plan *l, int k) {
    cr_out_format(t, "(%s *)p.w[at + %d]", type_of(l, k), l->at[k]);
}

/* The offset of operand k at these coordinates, in elements. */
static void add_offset(cr_out *t, const plan *l, int k, int elements) {
    for (int d = 0; d < strides_of(l, k); d++)
        cr_out_format(t, "%s(S)c%d * (S)p.w[at + %d]", d ? " + " : "", d, l->at[k] + 1 + d);
    if (l->of[k] == DENSE) cr_out_format(t, "%s(S)c%d * %d", l->ndim > 1 ? " + " : "", l->ndim - 1, elements);
}

/* A thread's packs: it reads all of them before it writes any.  x%d: packs of the inputs, r%d: offsets
 * in the results, in: is there a pack. */
static void add_variables(cr_out *t, const plan *l, int elements, int packs) {
    const int n_out = l->w->n_out;
    cr_out_format(t, "bool in[%d];\n", packs);
    for (int k = 0; k < n_out; k++) cr_out_format(t, "S r%d[%d];\n", k, packs);
    for (int k = n_out; k < l->operands; k++)
        if (l->of[k] < SAME)
            cr_out_format(t, "pack<%s, %d> x%d[%d];\n", type_of(l, k), l->of[k] == DENSE ? elements : 1, k - n_out,
                          packs);
}

/* The coordinates of pack u, and whether it lies inside. */
static void add_pack_coordinates(cr_out *t, const plan *l, int elements) {
    const int last = l->ndim - 1;
    if (l->across) {
        cr_out_format(t, "const u32 j = threadIdx.x + u * %d, a = j %% %d, b = j / %d;\n", CUDA_GROUP, l->across,
                      l->across);
        cr_out_format(t, "const I c%d = c%d_ + a, c%d = c%d_ + b;\nif ((in[u] = a < across && b < along)) {\n", last,
                      last, last - 1, last - 1);
        return;
    }
    cr_out_format(t, "const I e = i + u * %d;\nif ((in[u] = e < %s)) {\n", CUDA_GROUP,
                  elements == l->elements ? "packs" : "numel");
    add_coordinates(t, l, "e");
}

/* Pack u of an input. */
static void add_read(cr_out *t, const plan *l, int k, int elements) {
    const int i = k - l->w->n_out;
    if (l->of[k] == TRANSPOSED) {
        cr_out_format(t, "x%d[u].v[0] = m%d[a * pitch<%s, %d> + b];\n", i, k, type_of(l, k), l->along);
        return;
    }
    cr_out_format(t, "x%d[u] = *(const pack<%s, %d> *)(", i, type_of(l, k), l->of[k] == DENSE ? elements : 1);
    add_first(t, l, k);
    cr_out_format(t, " + (");
    add_offset(t, l, k, elements);
    cr_out_format(t, "));\n");
}

static void add_reads(cr_out *t, const plan *l, int elements, int packs) {
    cr_out_format(t, "for (int u = 0; u < %d; u++) {\n", packs);
    add_pack_coordinates(t, l, elements);
    for (int k = 0; k < l->w->n_out; k++) {
        cr_out_format(t, "r%d[u] = ", k);
        add_offset(t, l, k, elements);
        cr_out_format(t, ";\n");
    }
    for (int k = l->w->n_out; k < l->operands; k++)
        if (l->of[k] < SAME) add_read(t, l, k, elements);
    cr_out_format(t, "}\n}\n");
}

/* y%d: a pack of each result. */
static void add_results(cr_out *t, const plan *l, int elements, int packs) {
    const cr_walk *w = l->w;
    cr_out_format(t, "for (int u = 0; u < %d; u++) if (in[u]) {\n", packs);
    for (int k = 0; k < w->n_out; k++) cr_out_format(t, "pack<%s, %d> y%d;\n", type_of(l, k), elements, k);
    cr_out_format(t, "for (int k = 0; k < %d; k++) one(p", elements);
    for (int i = 0; i < w->n_in; i++) {
        const access of = l->of[w->n_out + i];
        if (of >= SAME) cr_out_format(t, ", s%d", i);
        else cr_out_format(t, ", cast<C>(x%d[u].v[%s])", i, of == DENSE ? "k" : "0");
    }
    for (int k = 0; k < w->n_out; k++) cr_out_format(t, ", y%d.v[k]", k);
    cr_out_format(t, ");\n");
    for (int k = 0; k < w->n_out; k++) {
        cr_out_format(t, "*(pack<%s, %d> *)(", type_of(l, k), elements);
        add_first(t, l, k);
        cr_out_format(t, " + r%d[u]) = y%d;\n", k, k);
    }
    cr_out_format(t, "}\n");
}

static void add_packs(cr_out *t, const plan *l, int elements, int packs) {
    add_variables(t, l, elements, packs);
    add_reads(t, l, elements, packs);
    add_results(t, l, elements, packs);
}

/* A block computes one tile. */
static void add_tile(cr_out *t, const plan *l) {
    const int last = l->ndim - 1, sizes = l->at[0] - 2;
    add_coordinates(t, l, "(I)(blockIdx.x - begin)");
    for (int d = 0; d < last - 1; d++) cr_out_format(t, "const I c%d = t%d;\n", d, d);
    cr_out_format(
        t,
        "const I c%d_ = t%d * %d, c%d_ = t%d * %d, across = (I)p.w[at + %d] - c%d_, along = (I)p.w[at + %d] - c%d_;\n",
        last, last, l->across, last - 1, last - 1, l->along, sizes, last, sizes + 1, last - 1);
    for (int k = l->w->n_out; k < l->operands; k++) {
        if (l->of[k] != TRANSPOSED) continue;
        cr_out_format(t, "__shared__ %s m%d[%d * pitch<%s, %d>];\n{\nconst I c%d = c%d_, c%d = c%d_;\n", type_of(l, k),
                      k, l->across, type_of(l, k), l->along, last, last, last - 1, last - 1);
        cr_out_format(t, "read_tile<%d, %d>(m%d, ", l->across, l->along, k);
        add_first(t, l, k);
        cr_out_format(t, " + (");
        add_offset(t, l, k, 1);
        cr_out_format(t, "), (S)p.w[at + %d], across, along);\n}\n", l->at[k] + 1 + last);
    }
    add_packs(t, l, 1, l->packs);
}

static void add_rows(cr_out *t, const plan *l) {
    const int span = l->packs * CUDA_GROUP;
    cr_out_format(
        t, "const I packs = numel / %d, step = (I)(p.w[at] - begin) * %d;\nfor (I i = first; i < packs; i += step) {\n",
        l->elements, span);
    add_packs(t, l, l->elements, l->packs);
    cr_out_format(t, "}\n");
    if (l->ndim > 1 || l->elements == 1) return;
    cr_out_format(t, "for (I i = packs * %d + first; i < numel; i += step) {\n", l->elements);
    add_packs(t, l, 1, 1);
    cr_out_format(t, "}\n");
}

static void add_text(cr_out *t, const plan *l, int64_t walks) {
    const cr_walk *w = l->w;
    add_program(t, l, walks);
    cr_out_format(t, "typedef %s I;\ntypedef %s S;\nKERNEL(%d) walk(const words p) {\n", l->wide ? "u64" : "u32",
                  l->wide ? "i64" : "i32", CUDA_GROUP);
    cr_out_format(t, "int at = %d;\nu64 begin = 0;\n", l->walk_at);
    if (walks > 1) cr_out_format(t, "for (; blockIdx.x >= p.w[at]; at += %d) begin = p.w[at];\n", l->walk_words);
    /* return before reading a number that the only result may replace; all threads of a tile are needed */
    if (!l->across)
        cr_out_format(t,
                      "const I numel = (I)p.w[at + 1], first = (I)(blockIdx.x - begin) * %d + threadIdx.x;\n"
                      "if (first >= numel) return;\n",
                      l->packs * CUDA_GROUP);
    for (int i = 0; i < w->n_in; i++) {
        const int k = w->n_out + i;
        if (l->of[k] == NUMBER) cr_out_format(t, "const C s%d = as<C>(p.w[at + %d]);\n", i, l->at[k]);
        if (l->of[k] == SAME)
            cr_out_format(t, "const C s%d = cast<C>(*(const %s *)p.w[at + %d]);\n", i, type_of(l, k), l->at[k]);
    }
    if (l->across) add_tile(t, l);
    else add_rows(t, l);
    cr_out_format(t, "}\n");
}

/* ---- its argument */

/* Words of 8 bytes: addresses, i64, numbers of the type of computation.  Their order is that of plan:
 * it depends on the program. */
typedef struct words { int n; uint64_t w[WORDS]; } words;
static void push_word(words *q, uint64_t word) {
    CR_ASSERT(q->n < WORDS);
    if (q->n < WORDS) q->w[q->n++] = word;          /* the test silences a warning of GCC 12 where assertions are off */
}

static void push_number(words *q, cr_dtype compute, const void *value, cr_dtype from) {
    unsigned char bytes[8] = {0};
    uint64_t word;
    cr_convert(bytes, compute, value, from);
    memcpy(&word, bytes, 8);
    push_word(q, word);
}

static void push_shared(words *q, const cr_walk *w, cuda_address fault) {
    const cr_program *p = w->program;
    push_word(q, fault);
    for (int i = 0; i < p->n_param; i++) push_number(q, w->compute, &w->params[i], CR_F64);
    for (int i = 0; i < p->n_const; i++) push_number(q, w->compute, &p->consts[i], CR_F64);
}

/* The second operand of divide() in device.cuh for n: n itself where I has 64 bits; else s = ceil(log2
 * n) and below it m = floor(2^(32 + s) / n) + 1 - 2^32 (Granlund and Montgomery 1994).  With e = n
 * (2^32 + m) - 2^(32 + s), 0 < e <= n <= 2^s, x (2^32 + m) / 2^(32 + s) is x / n + x e / (n 2^(32 +
 * s)), and the last term is below 1 / n. */
static uint64_t reciprocal(const plan *l, uint64_t n) {
    uint64_t s = 0;
    if (l->wide) return n;
    while (((uint64_t)1 << s) < n) s++;
    return s << 32 | (((((uint64_t)1 << s) - n) << 32) / n + 1);
}

/* Along axis d: packs, or tiles, or elements. */
static int64_t steps(const plan *l, int d) {
    int share = 1;
    if (d == l->ndim - 1) share = l->across ? l->across : l->elements;
    else if (d == l->ndim - 2 && l->across) share = l->along;
    return cuda_pieces(shape(l, d), share);
}

static int64_t blocks_of(const cuda *g, const plan *l) {
    const int64_t each = (int64_t)l->elements * l->packs;
    int64_t tiles = 1;
    for (int d = 0; d < l->ndim; d++) tiles *= steps(l, d);
    return l->across ? tiles : cr_cuda_blocks(g, cuda_pieces(l->w->numel, each));
}

/* end: of the blocks of this walk, counted from the first walk */
static void push_walk(words *q, const plan *l, int64_t end) {
    const cr_walk *w = l->w;
    push_word(q, (uint64_t)end);
    push_word(q, (uint64_t)w->numel);
    for (int d = 1; d < l->ndim; d++) {
        push_word(q, (uint64_t)steps(l, d));
        push_word(q, reciprocal(l, (uint64_t)steps(l, d)));
    }
    if (l->across) {
        push_word(q, (uint64_t)shape(l, l->ndim - 1));
        push_word(q, (uint64_t)shape(l, l->ndim - 2));
    }
    for (int k = 0; k < l->operands; k++) {
        if (l->of[k] == NUMBER) push_number(q, w->compute, operand(w, k)->data, operand(w, k)->dtype);
        else push_word(q, address(operand(w, k)));
        for (int d = 0; d < strides_of(l, k); d++) push_word(q, (uint64_t)stride(l, k, d));
    }
}

static bool same_key(const cuda_key *a, const cuda_key *b) {
    return a->n == b->n && !a->full && !memcmp(a->bytes, b->bytes, a->n);
}

/* The walks that have the plan's key, as many as the words hold; returns how many. */
static int64_t push_walks(cuda *g, words *q, const plan *l, const cuda_key *key, int64_t count, int64_t *blocks) {
    const cr_walk *w = l->w;
    int64_t walks = 0;
    cuda_key other;
    for (; walks < count && w[walks].numel && q->n + l->walk_words <= WORDS; walks++) {
        const plan next = walks ? plan_of(&w[walks]) : *l;
        if (walks) key_of(&other, &next);
        if (walks && (!same_key(key, &other) || w[walks].params != w->params)) break;
        *blocks += blocks_of(g, &next);
        push_walk(q, &next, *blocks);
    }
    return walks;
}

static const cuda_kernel *kernel_of(cuda *g, const plan *l, const cuda_key *key, int64_t walks) {
    const cuda_kernel *found = cr_cuda_kernel_find(g, key);
    if (found) return found;
    cr_out t = {0};
    add_text(&t, l, walks);
    const cuda_kernel *made = cr_cuda_kernel_make(g, l->w->program->name, key, "walk", t.failed ? NULL : t.text, false);
    cr_out_free(&t);
    return made;
}

/* Launches the first walk together with the walks after it that share its kernel.  Returns how many; 0: an error. */
static int64_t launch_walks(cuda *g, const cr_walk *w, int64_t count) {
    const char *name = w->program->name;
    const plan l = plan_of(w);
    cuda_address fault = 0;
    if (l.walk_at + l.walk_words > WORDS)
        return cr_fail(CR_BAD_VALUE, name, "the program has too many constants for a GPU kernel: %d",
                       w->program->n_const),
               0;
    if (l.divides && !(fault = cr_cuda_fault_new(g, name, 0))) return 0;
    cuda_key key;
    words q;
    int64_t blocks = 0;
    q.n = 0;
    key_of(&key, &l);
    push_shared(&q, w, fault);
    const int64_t walks = push_walks(g, &q, &l, &key, count, &blocks);
    if (walks > 1) memset(q.w + q.n, 0, sizeof q.w - (size_t)q.n * sizeof *q.w);     /* the kernel takes all words */
    cuda_key_byte(&key, walks > 1);
    return cr_cuda_launch(g, name, kernel_of(g, &l, &key, walks), q.w, blocks) == CR_OK ? walks : 0;
}

cr_status cr_cuda_elementwise(const cr_elementwise_args *args) {
    const cr_walk *walks = args->walks;
    const int64_t count = args->count;
    if (!count) return CR_OK;
    cuda *g = cr_cuda_enter(walks->program->name, walks->out[0].storage->dev);
    if (!g) return cr_error_status();
    int64_t done = 1;
    for (int64_t i = 0; i < count && done; i += done) done = walks[i].numel ? launch_walks(g, &walks[i], count - i) : 1;
    return cr_cuda_leave(g, done ? CR_OK : cr_error_status());
}

static cr_status run_copy(const cr_array *dst, const cr_array *src, const void *value) {
    const cr_walk w = cr_walk_of_copy(dst, src, value);
    return cr_cuda_elementwise(&(cr_elementwise_args){&w, w.numel > 0});
}
cr_status cr_cuda_copy(const cr_copy_args *args) { return run_copy(&args->dst, &args->src, NULL); }
cr_status cr_cuda_fill(const cr_fill_args *args) { return run_copy(&args->dst, NULL, args->value); }
