/* elementwise.c - programs as CUDA C, compiled once for each program, its dtypes and class of shapes.
 *
 * Strides, addresses, parameters and constants are data, not text: so one kernel serves all shapes of a class, and no compiler reasons with
 * constants about NaN (x * 0 is not 0).  Two classes.  Flat: all in one line, or the same everywhere; a thread reads, computes and writes
 * 16 bytes of the widest operand at once where their addresses allow.  Strided: a thread has one element at a time.  Walks of one class
 * that come together, an optimizer's step over all parameters, share launches: as many as the parameters of a kernel hold. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- instructions: $a $b $c are the operands, $f: f where functions of f32 have one, C the type of values */
static const char *const float_ops[CR_OP_COUNT] = {
    [CR_OP_ADD] = "$a + $b", [CR_OP_SUB] = "$a - $b", [CR_OP_MUL] = "$a * $b", [CR_OP_DIV] = "$a / $b", [CR_OP_NEG] = "-$a", [CR_OP_ABS] = "fabs$f($a)",
    [CR_OP_SIGN] = "(C)($a > 0) - (C)($a < 0)", [CR_OP_COPYSIGN] = "copysign$f($a, $b)", [CR_OP_MAX] = "f_max($a, $b)", [CR_OP_MIN] = "f_min($a, $b)",
    [CR_OP_POW] = "pow$f($a, $b)", [CR_OP_FMOD] = "fmod$f($a, $b)", [CR_OP_REM] = "f_rem($a, $b)", [CR_OP_FDIV] = "f_floor_div($a, $b)",
    [CR_OP_TDIV] = "f_trunc_div($a, $b)", [CR_OP_EXP] = "exp$f($a)", [CR_OP_EXP2] = "exp2$f($a)", [CR_OP_EXPM1] = "expm1$f($a)", [CR_OP_LOG] = "log$f($a)",
    [CR_OP_LOG2] = "log2$f($a)", [CR_OP_LOG10] = "log10$f($a)", [CR_OP_LOG1P] = "log1p$f($a)", [CR_OP_SQRT] = "sqrt$f($a)", [CR_OP_RSQRT] = "1 / sqrt$f($a)",
    [CR_OP_SIN] = "sin$f($a)", [CR_OP_COS] = "cos$f($a)", [CR_OP_TAN] = "tan$f($a)", [CR_OP_ASIN] = "asin$f($a)", [CR_OP_ACOS] = "acos$f($a)",
    [CR_OP_ATAN] = "atan$f($a)", [CR_OP_ATAN2] = "atan2$f($a, $b)", [CR_OP_SINH] = "sinh$f($a)", [CR_OP_COSH] = "cosh$f($a)", [CR_OP_TANH] = "tanh$f($a)",
    [CR_OP_ASINH] = "asinh$f($a)", [CR_OP_ACOSH] = "acosh$f($a)", [CR_OP_ATANH] = "atanh$f($a)", [CR_OP_ERF] = "erf$f($a)", [CR_OP_ERFC] = "erfc$f($a)",
    [CR_OP_SIGMOID] = "1 / (1 + exp$f(-$a))", [CR_OP_FLOOR] = "floor$f($a)", [CR_OP_CEIL] = "ceil$f($a)", [CR_OP_ROUND] = "rint$f($a)", [CR_OP_TRUNC] = "trunc$f($a)",
    [CR_OP_ISNAN] = "$a != $a", [CR_OP_ISINF] = "is_inf($a)", [CR_OP_EQ] = "$a == $b", [CR_OP_NE] = "$a != $b", [CR_OP_LT] = "$a < $b", [CR_OP_LE] = "$a <= $b",
    [CR_OP_GT] = "$a > $b", [CR_OP_GE] = "$a >= $b", [CR_OP_SEL] = "$a != 0 ? $b : $c",
};

/* In 64 bits without a sign, where nothing overflows; $w: the bits of the dtype, $F: where to note a division by zero. */
static const char *const int_ops[CR_OP_COUNT] = {
    [CR_OP_ADD] = "(u64)$a + (u64)$b", [CR_OP_SUB] = "(u64)$a - (u64)$b", [CR_OP_MUL] = "(u64)$a * (u64)$b", [CR_OP_NEG] = "0 - (u64)$a",
    [CR_OP_ABS] = "$a < 0 ? 0 - (u64)$a : (u64)$a", [CR_OP_SIGN] = "($a > 0) - ($a < 0)", [CR_OP_COPYSIGN] = "($a < 0) == ($b < 0) ? (u64)$a : 0 - (u64)$a",
    [CR_OP_MAX] = "$a < $b ? $b : $a", [CR_OP_MIN] = "$b < $a ? $b : $a", [CR_OP_POW] = "i_pow($a, $b)", [CR_OP_DIV] = "i_div($a, divisor($b, $F))",
    [CR_OP_TDIV] = "i_div($a, divisor($b, $F))", [CR_OP_FMOD] = "i_mod($a, divisor($b, $F))", [CR_OP_REM] = "i_rem($a, divisor($b, $F))",
    [CR_OP_FDIV] = "i_floor_div($a, divisor($b, $F))", [CR_OP_FLOOR] = "$a", [CR_OP_CEIL] = "$a", [CR_OP_ROUND] = "$a", [CR_OP_TRUNC] = "$a", [CR_OP_ISNAN] = "0",
    [CR_OP_ISINF] = "0", [CR_OP_EQ] = "$a == $b", [CR_OP_NE] = "$a != $b", [CR_OP_LT] = "$a < $b", [CR_OP_LE] = "$a <= $b", [CR_OP_GT] = "$a > $b",
    [CR_OP_GE] = "$a >= $b", [CR_OP_SEL] = "$a != 0 ? $b : $c", [CR_OP_BAND] = "$a & $b", [CR_OP_BOR] = "$a | $b", [CR_OP_BXOR] = "$a ^ $b", [CR_OP_BNOT] = "~$a",
    [CR_OP_SHL] = "(u64)$b >= $w ? 0 : (u64)$a << ($b & 63)", [CR_OP_SHR] = "(u64)$b >= $w ? 0 - (u64)($a < 0) : (u64)((i64)$a >> ($b & 63))",
};

static const char *op_text(int op, cr_dtype compute) {
    if (cr_dtype_is_float(compute)) return float_ops[op];
    if (compute == CR_BOOL && op == CR_OP_BNOT) return "!$a";
    if (compute == CR_U64 && op == CR_OP_SHR) return "$b >= 64 ? 0 : $a >> ($b & 63)";
    return int_ops[op];
}

static bool divides(int op) { return op == CR_OP_DIV || op == CR_OP_FMOD || op == CR_OP_REM || op == CR_OP_FDIV || op == CR_OP_TDIV; }

static void add_instruction(cuda_text *t, cr_dtype compute, int result, const cr_instr *s) {
    cuda_add(t, "const C v%d = (C)(", result);
    for (const char *c = op_text(s->op, compute); *c; c++) {
        if (*c != '$') { cuda_add(t, "%c", *c); continue; }
        switch (*++c) {
            case 'a': cuda_add(t, "v%d", s->a); break;
            case 'b': cuda_add(t, "v%d", s->b); break;
            case 'c': cuda_add(t, "v%d", s->c); break;
            case 'f': cuda_add(t, compute == CR_F64 ? "" : "f"); break;
            case 'w': cuda_add(t, "%d", compute == CR_BOOL ? 1 : 8 * (int)cr_dtype_size(compute)); break;
            case 'F': cuda_add(t, "(fault *)p.w[0]"); break;
            default: CR_ASSERT(false && "an unknown $ in the table of instructions");
        }
    }
    cuda_add(t, ");\n");
}

/* ---- a walk as a kernel */
enum { OPERANDS = CR_MAX_OUTPUTS + CR_MAX_INPUTS };
typedef enum place { DENSE, SAME, APART, NUMBER } place;        /* in one line; one element for all; by strides; a number of the host's */
typedef struct plan {                               /* everything about a walk that its kernel is compiled for */
    const cr_walk *w;
    int operands;                                   /* results first */
    bool flat, wide, divides;                       /* wide: does not fit into 32 bits */
    place of[OPERANDS];
    int elements;                                   /* that a thread has at once */
    int ndim;                                       /* 0 where flat */
    int walk_at, walk_words;                        /* parameters: fault, params, constants; for each walk where its blocks end, elements, shape, and of each operand its address, or value, and strides */
} plan;
enum { SHAPE_AT = 2 };                              /* in the words of a walk */

static const cr_arg *operand(const cr_walk *w, int k) { return k < w->n_out ? &w->out[k] : &w->in[k - w->n_out]; }
static bool is_number(const cr_walk *w, int k) { return operand(w, k)->data; }
static cuda_address address(const cr_arg *a) { return cuda_place(a->storage) + (cuda_address)a->offset * cr_dtype_size(a->dtype); }

static place place_of(const cr_walk *w, int k) {
    const cr_arg *a = operand(w, k);
    if (is_number(w, k)) return NUMBER;
    if (w->ndim == 0 || w->numel == 1) return k < w->n_out ? DENSE : SAME;
    if (w->ndim > 1) {
        for (int d = 0; d < w->ndim; d++) if (a->strides[d]) return APART;
        return SAME;
    }
    return a->strides[0] == 1 ? DENSE : a->strides[0] == 0 && k >= w->n_out ? SAME : APART;
}

static bool fits(const cr_walk *w, int k) {
    int64_t far = 0;
    for (int d = 0; d < w->ndim; d++) far += llabs(operand(w, k)->strides[d]) * (w->shape[d] - 1);
    return far < INT32_MAX;
}

/* As many as 16 bytes of the widest line hold, where all lines begin at multiples of their share. */
static int elements_of(const plan *l) {
    size_t widest = 1;
    for (int k = 0; k < l->operands; k++)
        if (l->of[k] == DENSE && cr_dtype_size(operand(l->w, k)->dtype) > widest) widest = cr_dtype_size(operand(l->w, k)->dtype);
    const int n = (int)(16 / widest);
    for (int k = 0; k < l->operands; k++)
        if (l->of[k] == DENSE && address(operand(l->w, k)) % ((size_t)n * cr_dtype_size(operand(l->w, k)->dtype))) return 1;
    return l->w->numel < n ? 1 : n;
}

static plan plan_of(const cr_walk *w) {
    plan l = {.w = w, .operands = w->n_out + w->n_in, .flat = true, .elements = 1, .wide = w->numel >= INT32_MAX};
    for (int k = 0; k < l.operands; k++) {
        l.of[k] = place_of(w, k);
        l.flat &= l.of[k] != APART;
        l.wide |= l.of[k] != NUMBER && !fits(w, k);
    }
    if (l.flat) l.elements = elements_of(&l);
    else l.ndim = w->ndim;
    for (int k = 0; k < w->n_out && !l.flat; k++) l.of[k] = APART;
    for (int i = 0; i < w->program->n_instr && !cr_dtype_is_float(w->compute); i++) l.divides |= divides(w->program->instr[i].op);
    l.walk_at = 1 + w->program->n_param + w->program->n_const;
    l.walk_words = SHAPE_AT + l.ndim + l.operands * (1 + l.ndim);
    return l;
}

static void key_of(cuda_key *k, const plan *l) {
    const cr_walk *w = l->w;
    const cr_program *p = w->program;
    k->n = 0, k->full = false;
    const unsigned char head[] = {'e', (unsigned char)w->compute, l->flat, l->wide, (unsigned char)l->elements, (unsigned char)l->ndim, (unsigned char)w->n_out,
                                  (unsigned char)w->n_in, (unsigned char)p->n_param};
    cuda_key_add(k, head, sizeof head);
    for (int i = 0; i < l->operands; i++) cuda_key_byte(k, (l->of[i] == NUMBER ? 0 : (int)operand(w, i)->dtype) + 32 * (int)l->of[i]);
    cuda_key_add(k, &p->n_const, sizeof p->n_const);
    cuda_key_add(k, p->out, sizeof *p->out * (size_t)w->n_out);
    for (int i = 0; i < p->n_instr; i++) {
        const int16_t part[] = {p->instr[i].op, p->instr[i].a, p->instr[i].b, p->instr[i].c};
        cuda_key_add(k, part, sizeof part);
    }
}

/* ---- its text */

static int word_of(const plan *l, int k) { return SHAPE_AT + l->ndim + k * (1 + l->ndim); }
static const char *type_of(const plan *l, int k) { return cuda_type(operand(l->w, k)->dtype); }

/* one(p, inputs as values, results): the program. */
static void add_program(cuda_text *t, const plan *l, int64_t walks) {
    const cr_walk *w = l->w;
    const cr_program *p = w->program;
    cuda_add(t, "typedef %s C;\nstruct words { u64 w[%d]; };\nD void one(const words &p", cuda_wide(w->compute), walks > 1 ? CUDA_WORDS : l->walk_at + l->walk_words);
    for (int i = 0; i < w->n_in; i++) cuda_add(t, ", const C v%d", i);
    for (int k = 0; k < w->n_out; k++) cuda_add(t, ", %s &y%d", type_of(l, k), k);
    cuda_add(t, ") {\n");
    for (int i = 0; i < p->n_param + p->n_const; i++) cuda_add(t, "const C v%d = as<C>(p.w[%d]);\n", p->n_in + i, 1 + i);
    for (int i = 0; i < p->n_instr; i++) add_instruction(t, w->compute, p->n_in + p->n_param + p->n_const + i, &p->instr[i]);
    for (int k = 0; k < w->n_out; k++) cuda_add(t, "y%d = cast<%s>(v%d);\n", k, type_of(l, k), p->out[k]);
    cuda_add(t, "}\n");
}

/* Where operand k has element e. */
static void add_element(cuda_text *t, const plan *l, int k) {
    const int at = word_of(l, k);
    cuda_add(t, "((%s%s *)p.w[at + %d])[", k < l->w->n_out ? "" : "const ", type_of(l, k), at);
    if (l->of[k] == DENSE) cuda_add(t, "e");
    else if (l->of[k] == SAME) cuda_add(t, "0");
    for (int d = 0; d < l->ndim && l->of[k] == APART; d++) cuda_add(t, "%s(S)c%d * (S)p.w[at + %d]", d ? " + " : "", d, at + 1 + d);
    cuda_add(t, "]");
}

/* The call for element e, or, where pack says so, for element k of the packs. */
static void add_call(cuda_text *t, const plan *l, bool packs) {
    const cr_walk *w = l->w;
    cuda_add(t, "one(p");
    for (int i = 0; i < w->n_in; i++) {
        const int k = w->n_out + i;
        if (l->of[k] >= SAME && l->of[k] != APART) cuda_add(t, ", s%d", i);
        else if (packs) cuda_add(t, ", cast<C>(x%d.v[k])", i);
        else {
            cuda_add(t, ", cast<C>(");
            add_element(t, l, k);
            cuda_add(t, ")");
        }
    }
    for (int k = 0; k < w->n_out; k++) {
        cuda_add(t, packs ? ", y%d.v[k]" : ", ", k);
        if (!packs) add_element(t, l, k);
    }
    cuda_add(t, ");\n");
}

static void add_packs(cuda_text *t, const plan *l) {
    const cr_walk *w = l->w;
    cuda_add(t, "for (I i = first; i < numel / %d; i += step) {\n", l->elements);
    for (int k = 0; k < l->operands; k++) {
        const int number = k < w->n_out ? k : k - w->n_out;
        if (k < w->n_out) cuda_add(t, "pack<%s, %d> y%d;\n", type_of(l, k), l->elements, number);
        else if (l->of[k] == DENSE) cuda_add(t, "const pack<%s, %d> x%d = ((const pack<%s, %d> *)p.w[at + %d])[i];\n", type_of(l, k), l->elements, number, type_of(l, k), l->elements, word_of(l, k));
    }
    cuda_add(t, "for (int k = 0; k < %d; k++) ", l->elements);
    add_call(t, l, true);
    for (int k = 0; k < w->n_out; k++) cuda_add(t, "((pack<%s, %d> *)p.w[at + %d])[i] = y%d;\n", type_of(l, k), l->elements, word_of(l, k), k);
    cuda_add(t, "}\n");
}

static void add_text(cuda_text *t, const plan *l, int64_t walks) {
    const cr_walk *w = l->w;
    add_program(t, l, walks);
    cuda_add(t, "typedef %s I;\ntypedef %s S;\nKERNEL(%d) walk(const words p) {\n", l->wide ? "u64" : "u32", l->wide ? "i64" : "i32", CUDA_GROUP);
    cuda_add(t, "int at = %d;\nu64 begin = 0;\n", l->walk_at);
    if (walks > 1) cuda_add(t, "for (; blockIdx.x >= p.w[at]; at += %d) begin = p.w[at];\n", l->walk_words);
    cuda_add(t, "const I numel = (I)p.w[at + 1], step = (I)(p.w[at] - begin) * %d, first = (I)(blockIdx.x - begin) * %d + threadIdx.x;\n", CUDA_GROUP, CUDA_GROUP);
    cuda_add(t, "if (first >= numel) return;\n");               /* before a number is read that the one result may replace */
    for (int i = 0; i < w->n_in; i++) {
        const int k = w->n_out + i;
        if (l->of[k] == NUMBER) cuda_add(t, "const C s%d = as<C>(p.w[at + %d]);\n", i, word_of(l, k));
        if (l->of[k] == SAME) cuda_add(t, "const C s%d = cast<C>(*(const %s *)p.w[at + %d]);\n", i, type_of(l, k), word_of(l, k));
    }
    if (l->elements > 1) add_packs(t, l);
    if (l->elements == 1) cuda_add(t, "for (I e = first; e < numel; e += step) {\n");
    else cuda_add(t, "for (I e = numel / %d * %d + first; e < numel; e += step) {\n", l->elements, l->elements);
    if (l->ndim > 1) cuda_add(t, "I rest = e;\n");
    for (int d = l->ndim - 1; d > 0; d--) cuda_add(t, "const I c%d = rest %% (I)p.w[at + %d]; rest /= (I)p.w[at + %d];\n", d, SHAPE_AT + d, SHAPE_AT + d);
    if (l->ndim) cuda_add(t, "const I c0 = %s;\n", l->ndim > 1 ? "rest" : "e");
    add_call(t, l, false);
    cuda_add(t, "}\n}\n");
}

/* ---- what it is run with */

static void push_number(cuda_words *q, cr_dtype compute, const void *value, cr_dtype from) {
    unsigned char bytes[8] = {0};
    uint64_t word;
    cr_convert(bytes, compute, value, from);
    memcpy(&word, bytes, 8);
    cuda_push(q, word);
}

static void push_shared(cuda_words *q, const cr_walk *w, cuda_address fault) {
    const cr_program *p = w->program;
    cuda_push(q, fault);
    for (int i = 0; i < p->n_param; i++) push_number(q, w->compute, &w->params[i], CR_F64);
    for (int i = 0; i < p->n_const; i++) push_number(q, w->compute, &p->consts[i], CR_F64);
}

/* end: of the blocks of this walk and those before it */
static void push_walk(cuda_words *q, const plan *l, int64_t end) {
    const cr_walk *w = l->w;
    cuda_push(q, (uint64_t)end);
    cuda_push(q, (uint64_t)w->numel);
    for (int d = 0; d < l->ndim; d++) cuda_push(q, (uint64_t)w->shape[d]);
    for (int k = 0; k < l->operands; k++) {
        if (l->of[k] == NUMBER) push_number(q, w->compute, operand(w, k)->data, operand(w, k)->dtype);
        else cuda_push(q, address(operand(w, k)));
        for (int d = 0; d < l->ndim; d++) cuda_push(q, (uint64_t)operand(w, k)->strides[d]);
    }
}

static bool same_key(const cuda_key *a, const cuda_key *b) { return a->n == b->n && !a->full && !memcmp(a->bytes, b->bytes, a->n); }

/* The first walk, and those after it that its kernel serves as well, in one launch.  Returns how many; 0: a message. */
static int64_t run(cuda *g, const cr_walk *w, int64_t count) {
    const char *name = w->program->name;
    const plan l = plan_of(w);
    cuda_address fault = 0;
    if (l.walk_at + l.walk_words > CUDA_WORDS) return cr_fail(CR_BAD_VALUE, name, "a GPU takes no program of %d constants", w->program->n_const), 0;
    if (l.divides && !(fault = cuda_fault_new(g, name, 0))) return 0;
    cuda_key key, other;
    cuda_words q;
    int64_t walks = 0, blocks = 0;
    q.n = 0;
    key_of(&key, &l);
    push_shared(&q, w, fault);
    for (; walks < count && w[walks].numel && q.n + l.walk_words <= CUDA_WORDS; walks++) {
        const plan next = walks ? plan_of(&w[walks]) : l;
        if (walks) key_of(&other, &next);
        if (walks && (!same_key(&key, &other) || w[walks].params != w->params)) break;
        blocks += cuda_blocks(g, (w[walks].numel + next.elements - 1) / next.elements);
        push_walk(&q, &next, blocks);
    }
    if (walks > 1) memset(q.w + q.n, 0, sizeof q.w - (size_t)q.n * sizeof *q.w);     /* the kernel takes all of them */
    cuda_key_byte(&key, walks > 1);
    const cuda_kernel *k = cuda_kernel_find(g, &key);
    if (!k) {
        cuda_text t = {0};
        add_text(&t, &l, walks);
        k = cuda_kernel_make(g, name, &key, "walk", t.failed ? NULL : t.s);
        cuda_free_text(&t);
    }
    return k && cuda_launch_struct(g, name, k, &q, blocks) == CR_OK ? walks : 0;
}

cr_status cuda_elementwise(const cr_walk *walks, int64_t count) {
    if (!count) return CR_OK;
    cuda *g = cuda_enter(walks->program->name, walks->out[0].storage->dev);
    if (!g) return cr_error_status();
    int64_t done = 1;
    for (int64_t i = 0; i < count && done; i += done) done = walks[i].numel ? run(g, &walks[i], count - i) : 1;
    return cuda_leave(g, done ? CR_OK : cr_error_status());
}

static cr_status run_copy(cr_tensor *dst, const cr_tensor *src, const void *value) {
    const cr_walk w = cr_walk_of_copy(dst, src, value);
    return cuda_elementwise(&w, w.numel > 0);
}
cr_status cuda_copy(cr_tensor *dst, const cr_tensor *src) { return run_copy(dst, src, NULL); }
cr_status cuda_fill(cr_tensor *dst, const void *value) { return run_copy(dst, NULL, value); }
