/* elementwise.c - programs as WGSL, compiled once for each program and class of shapes; copies,
 * casts and fills are the program y = x.
 *
 * In a program that a plan joined (plan/fuse.c) each kernel that it comes from, a link, has the bits
 * of its own text: whatever it reads passes through link<k>, which no compiler sees through, so it can
 * neither contract nor share operations between links.
 *
 * Strides, offsets, parameters and constants are data, not source: so one kernel serves all shapes
 * of a class, and no compiler can simplify with constants (x * 0 is not 0 for NaN).  Two classes.
 * Whole words: the last axis of each result is a number of whole words; an invocation computes the
 * elements of one word of the narrowest result, so no other invocation writes its words.  Others: an
 * invocation computes one element; invocations that share a word write their bits by atomics, so
 * their order does not matter. */
#include "wgsl.h"

#include <stdlib.h>
#include <string.h>

/* ---- instructions: $a $b $c are the operands */
static const char *const float_ops[CR_OP_COUNT] = {
#define TEXT(OP, op, operands, value, cuda, wgsl, by) [CR_OP_##OP] = wgsl,
    CR_FLOAT_OPCODES(TEXT)
};

/* $z and $1: 0 and 1, $w: the bits of the dtype, $f: i or u, the prefix of its functions; $k: i64
 * or u64 */
static const char *const int_ops[CR_OP_COUNT] = {
    [CR_OP_ADD] = "$a + $b",
    [CR_OP_SUB] = "$a - $b",
    [CR_OP_MUL] = "$a * $b",
    [CR_OP_NEG] = "$z - $a",
    [CR_OP_ABS] = "abs($a)",
    [CR_OP_SIGN] = "select($z, $1, $a > $z) - select($z, $1, $a < $z)",
    [CR_OP_COPYSIGN] = "select($z - $a, $a, ($a < $z) == ($b < $z))",
    [CR_OP_MAX] = "max($a, $b)",
    [CR_OP_MIN] = "min($a, $b)",
    [CR_OP_FLOOR] = "$a",
    [CR_OP_CEIL] = "$a",
    [CR_OP_ROUND] = "$a",
    [CR_OP_TRUNC] = "$a",
    [CR_OP_ISNAN] = "$z",
    [CR_OP_ISINF] = "$z",
    [CR_OP_EQ] = "select($z, $1, $a == $b)",
    [CR_OP_NE] = "select($z, $1, $a != $b)",
    [CR_OP_LT] = "select($z, $1, $a < $b)",
    [CR_OP_LE] = "select($z, $1, $a <= $b)",
    [CR_OP_GT] = "select($z, $1, $a > $b)",
    [CR_OP_GE] = "select($z, $1, $a >= $b)",
    [CR_OP_SEL] = "select($c, $b, $a != $z)",
    [CR_OP_BAND] = "$a & $b",
    [CR_OP_BOR] = "$a | $b",
    [CR_OP_BXOR] = "$a ^ $b",
    [CR_OP_BNOT] = "~$a",
    [CR_OP_SHL] = "select($a << (bitcast<u32>($b) & 31u), $z, bitcast<u32>($b) >= $wu)",
    [CR_OP_POW] = "$f_pow($a, $b)",
    [CR_OP_DIV] = "$a / divisor($b)",
    [CR_OP_TDIV] = "$a / divisor($b)",
    [CR_OP_FMOD] = "$a % divisor($b)",
    [CR_OP_REM] = "$f_rem($a, divisor($b))",
    [CR_OP_FDIV] = "$f_fdiv($a, divisor($b))",
};

static const char *const long_ops[CR_OP_COUNT] = {
    [CR_OP_ADD] = "add64($a, $b)",
    [CR_OP_SUB] = "sub64($a, $b)",
    [CR_OP_MUL] = "mul64($a, $b)",
    [CR_OP_NEG] = "neg64($a)",
    [CR_OP_FLOOR] = "$a",
    [CR_OP_CEIL] = "$a",
    [CR_OP_ROUND] = "$a",
    [CR_OP_TRUNC] = "$a",
    [CR_OP_ISNAN] = "$z",
    [CR_OP_ISINF] = "$z",
    [CR_OP_EQ] = "select($z, $1, all($a == $b))",
    [CR_OP_NE] = "select($1, $z, all($a == $b))",
    [CR_OP_LT] = "select($z, $1, less_$k($a, $b))",
    [CR_OP_LE] = "select($1, $z, less_$k($b, $a))",
    [CR_OP_GT] = "select($z, $1, less_$k($b, $a))",
    [CR_OP_GE] = "select($1, $z, less_$k($a, $b))",
    [CR_OP_MAX] = "select($a, $b, less_$k($a, $b))",
    [CR_OP_MIN] = "select($a, $b, less_$k($b, $a))",
    [CR_OP_SEL] = "select($c, $b, any($a != $z))",
    [CR_OP_BAND] = "$a & $b",
    [CR_OP_BOR] = "$a | $b",
    [CR_OP_BXOR] = "$a ^ $b",
    [CR_OP_BNOT] = "~$a",
    [CR_OP_SHL] = "shl64($a, $b)",
    [CR_OP_SHR] = "shr_$k($a, $b)",
    [CR_OP_SIGN] = "select(select($z, $1, less_$k($z, $a)), ~$z, less_$k($a, $z))",
    [CR_OP_POW] = "$k_pow($a, $b)",
    [CR_OP_DIV] = "$k_div($a, divisor($b))",
    [CR_OP_TDIV] = "$k_div($a, divisor($b))",
    [CR_OP_FMOD] = "$k_fmod($a, divisor($b))",
    [CR_OP_REM] = "$k_rem($a, divisor($b))",
    [CR_OP_FDIV] = "$k_fdiv($a, divisor($b))",
    [CR_OP_ABS] = "select($a, neg64($a), less_$k($a, $z))",
    [CR_OP_COPYSIGN] = "select(neg64($a), $a, less_$k($a, $z) == less_$k($b, $z))",
};

static const char *int_text(int op, cr_dtype dt) {
    const bool is_signed = cr_dtype_kind(dt) == CR_KIND_SIGNED;
    if (op == CR_OP_BNOT && dt == CR_BOOL) return "$a ^ 1u";
    if (op == CR_OP_SHR)
        return is_signed ? "$a >> min(bitcast<u32>($b), 31u)" : "select($a >> ($b & 31u), 0u, $b >= $wu)";
    return int_ops[op];
}

static const char *op_text(int op, cr_dtype compute) {
    if (cr_dtype_is_float(compute)) return float_ops[op];
    return cr_wgsl_wide(compute) ? long_ops[op] : int_text(op, compute);
}

/* Value v as instruction i reads it: in another link than its own, hidden. */
static expr value_of(const cr_program *p, int i, int v) {
    const int made = v - cr_first_result(p);
    const bool number = v >= p->n_in && made < 0;
    if (!p->chain || number || (made >= 0 && p->chain->links[made] == p->chain->links[i])) return cr_expr_of("v%d", v);
    return cr_expr_of("link%d(v%d)", p->chain->links[i], v);
}

static void add_instruction(wgsl *w, cr_dtype compute, const cr_program *p, int i) {
    const cr_instr *s = &p->instr[i];
    const int result = cr_first_result(p) + i;
    const bool wide = cr_wgsl_wide(compute), is_signed = cr_dtype_kind(compute) == CR_KIND_SIGNED;
    cr_wgsl_add(w, "let r%d = ", result);
    for (const char *t = op_text(s->op, compute); *t; t++) {
        if (*t != '$') { cr_wgsl_add(w, "%c", *t); continue; }
        switch (*++t) {
            case 'a': cr_wgsl_add(w, "%s", value_of(p, i, s->a).s); break;
            case 'b': cr_wgsl_add(w, "%s", value_of(p, i, s->b).s); break;
            case 'c': cr_wgsl_add(w, "%s", value_of(p, i, s->c).s); break;
            case 'z': cr_wgsl_add(w, wide ? "vec2<u32>(0u)" : is_signed ? "0" : "0u"); break;
            case '1': cr_wgsl_add(w, wide ? "vec2<u32>(1u, 0u)" : is_signed ? "1" : "1u"); break;
            case 'w': cr_wgsl_add(w, "%d", compute == CR_BOOL ? 1 : 8 * (int)cr_dtype_size(compute)); break;
            case 'k': cr_wgsl_add(w, is_signed ? "i64" : "u64"); break;
            case 'f': cr_wgsl_add(w, is_signed ? "i" : "u"); break;
            default: CR_ASSERT(false && "an unknown $ in the table of instructions");
        }
    }
    /* integers below 32 bits wrap to the dtype */
    const cr_dtype word = is_signed ? CR_I32 : CR_U32;
    const bool whole = cr_dtype_is_float(compute) || cr_dtype_size(compute) >= 4;
    cr_wgsl_add(w, ";\nlet v%d = %s;\n", result,
                whole ? cr_expr_of("r%d", result).s : cr_wgsl_cast(compute, word, cr_expr_of("r%d", result).s).s);
}

/* ---- a walk as a kernel */
typedef struct parameters { int n; uint32_t words[GPU_PARAMETER_WORDS]; } parameters;
static void push_word(parameters *p, uint32_t word) { CR_ASSERT(p->n < GPU_PARAMETER_WORDS); p->words[p->n++] = word; }

enum { PARAMETERS = 4 };                            /* words of `parameters` before the array */
enum { OPERANDS = CR_MAX_OUTPUTS + CR_MAX_INPUTS, HOST = 255 };
/* the properties of a walk that select its kernel, and its arguments */
typedef struct plan {
    const cr_walk *w;
    bool whole_words;
    int ndim;                                       /* at least 1 */
    int elements;                                   /* of one invocation */
    /* operand k (results first) lies in buffer of[k]; HOST: it is a number in host memory */
    int buffers, of[OPERANDS];
    gpu_buffer *buffer[OPERANDS + 1];
    size_t at[OPERANDS + 1];                        /* bytes before the bound window */
    uint32_t written, shared;                       /* bits: buffers */
    bool divides;                                   /* integers: a divisor may be 0; the last buffer holds the faults */
    int shape_at, operands_at, values_at, links_at; /* first word of each group of parameters */
} plan;

static const cr_arg *operand(const cr_walk *w, int k) { return k < w->n_out ? &w->out[k] : &w->in[k - w->n_out]; }
static int64_t stride(const plan *l, int k, int d) { return d < l->w->ndim ? operand(l->w, k)->strides[d] : 0; }

/* Is each row of each result a number of whole words, beside the last word of a single row? */
static bool has_whole_words(const cr_walk *w) {
    const int last = w->ndim - 1;
    for (int k = 0; k < w->n_out; k++) {
        const cr_arg *a = &w->out[k];
        const int lanes = cr_wgsl_lanes(a->dtype);
        if (lanes == 1) continue;
        if (a->offset % lanes || (w->ndim && a->strides[last] != 1 && w->numel > 1)) return false;
        if (w->ndim > 1 && w->shape[last] % lanes) return false;
        for (int d = 0; d < last; d++)
            if (a->strides[d] % lanes) return false;
    }
    return true;
}

static gpu_span span_of(const cr_walk *w, int k) {
    return cr_gpu_span_of(operand(w, k)->offset, w->ndim, w->shape, operand(w, k)->strides);
}

/* The binding that holds operand k, a new one if none does.  Operands in a buffer that is written
 * share one binding.  -1: they are too far apart for a window, or one of them is too long. */
static int buffer_of(plan *l, gpu_span spans[], const gpu *g, int k) {
    const cr_arg *a = operand(l->w, k);
    const int64_t size = (int64_t)cr_dtype_size(a->dtype);
    gpu_buffer *b = a->storage->data;
    gpu_span s = span_of(l->w, k);
    s.first *= size, s.end *= size;
    int i = 0;
    for (; i < l->buffers; i++) {
        if (l->buffer[i] != b) continue;
        const gpu_span both = {cr_imin(s.first, spans[i].first), cr_imax(s.end, spans[i].end)};
        if (cr_gpu_window(g, b, both, CR_U8, &l->at[i])) { spans[i] = both; return i; }
        if (l->written >> i & 1) return -1;
    }
    l->buffer[i] = b;
    spans[i] = s;
    l->buffers++;
    return cr_gpu_window(g, b, s, CR_U8, &l->at[i]) ? i : -1;
}

static int words_of(cr_dtype compute) { return cr_wgsl_wide(compute) ? 2 : 1; }

/* false: some operand does not fit into a window */
static bool plan_of(const gpu *g, const cr_walk *w, plan *made) {
    plan l = {.w = w, .whole_words = has_whole_words(w), .ndim = w->ndim ? w->ndim : 1, .elements = 1};
    gpu_span spans[OPERANDS + 1];
    int numbers = 0;
    for (int k = 0; k < w->n_out + w->n_in; k++) {
        const cr_arg *a = operand(w, k);
        if (a->data) { l.of[k] = HOST, numbers++; continue; }          /* in host memory: a number */
        const int i = l.of[k] = buffer_of(&l, spans, g, k);
        if (i < 0) return false;
        const int lanes = cr_wgsl_lanes(a->dtype);
        if (k >= w->n_out) continue;
        l.written |= 1u << i;
        if (!l.whole_words && lanes > 1) l.shared |= 1u << i;
        if (l.whole_words && lanes > l.elements) l.elements = lanes;
    }
    const bool integers = !cr_dtype_is_float(w->compute);
    for (int i = 0; i < w->program->n_instr; i++) l.divides |= integers && cr_opcode_divides(w->program->instr[i].op);
    if (l.divides) {
        l.written |= 1u << l.buffers;
        l.shared |= 1u << l.buffers++;
    }
    l.shape_at = PARAMETERS;
    l.operands_at = l.shape_at + l.ndim;
    l.values_at = l.operands_at + (w->n_out + w->n_in) * (1 + l.ndim);
    l.links_at = l.values_at + words_of(w->compute) * (numbers + w->program->n_param + w->program->n_const);
    *made = l;
    return true;
}

static gpu_key key_of(const plan *l) {
    const cr_walk *w = l->w;
    const cr_program *p = w->program;
    gpu_key k;
    k.n = 0, k.full = false;
    const unsigned char head[] = {'e',
                                  (unsigned char)w->compute,
                                  l->whole_words,
                                  (unsigned char)l->ndim,
                                  (unsigned char)w->n_out,
                                  (unsigned char)w->n_in,
                                  (unsigned char)p->n_param,
                                  p->chain != NULL};
    cr_gpu_key_add(&k, head, sizeof head);
    for (int i = 0; i < w->n_out + w->n_in; i++) {
        gpu_key_byte(&k, l->of[i] == HOST ? 0 : (int)operand(w, i)->dtype);
        gpu_key_byte(&k, l->of[i]);
    }
    cr_gpu_key_add(&k, &p->n_const, sizeof p->n_const);
    cr_gpu_key_add(&k, p->out, sizeof *p->out * (size_t)w->n_out);
    for (int i = 0; i < p->n_instr; i++) {
        const int16_t part[] = {p->instr[i].op, p->instr[i].a, p->instr[i].b, p->instr[i].c};
        cr_gpu_key_add(&k, part, sizeof part);
    }
    if (p->chain) cr_gpu_key_add(&k, p->chain->links, (size_t)p->n_instr);
    return k;
}

/* ---- source */
static expr parameter(int i) { return cr_expr_of("p.words[%d].%c", (i - PARAMETERS) / 4, "xyzw"[i % 4]); }
static expr buffer(const plan *l, int k) { return cr_expr_of("b%d", l->of[k]); }

/* Offset of element e of the walk in operand k: base + coordinates times strides. */
static expr offset_of(const plan *l, int k) {
    const int at = l->operands_at + k * (1 + l->ndim);
    expr e = cr_expr_of("%s + c0 * %s", parameter(at).s, parameter(at + 1).s);
    for (int d = 1; d < l->ndim; d++) e = cr_expr_of("%s + c%d * %s", e.s, d, parameter(at + 1 + d).s);
    return e;
}

static void add_coordinates(wgsl *w, const plan *l) {
    if (l->ndim == 1) { cr_wgsl_add(w, "let c0 = e;\n"); return; }
    cr_wgsl_add(w, "var rest = e;\n");
    for (int d = l->ndim - 1; d > 0; d--)
        cr_wgsl_add(w, "let c%d = rest %% %s; rest /= %s;\n", d, parameter(l->shape_at + d).s,
                    parameter(l->shape_at + d).s);
    cr_wgsl_add(w, "let c0 = rest;\n");
}

/* Value v of the program, read from the parameters: one word, or two. */
static void add_value(wgsl *w, const plan *l, int v, int at) {
    const cr_dtype dt = l->w->compute;
    if (cr_wgsl_wide(dt)) cr_wgsl_add(w, "let v%d = vec2<u32>(%s, %s);\n", v, parameter(at).s, parameter(at + 1).s);
    else cr_wgsl_add(w, "let v%d = bitcast<%s>(%s);\n", v, cr_wgsl_type(dt), parameter(at).s);
}

static void add_inputs(wgsl *w, const plan *l) {
    const cr_program *p = l->w->program;
    const int words = words_of(l->w->compute);
    int at = l->values_at;
    for (int i = 0; i < l->w->n_in; i++) {
        const int k = l->w->n_out + i;
        if (l->of[k] == HOST) { add_value(w, l, i, at); at += words; continue; }
        const cr_dtype dt = operand(l->w, k)->dtype;
        cr_wgsl_add(w, "let a%d = %s;\n", i, offset_of(l, k).s);
        cr_wgsl_add(w, "let x%d = %s;\n", i, cr_wgsl_load(buffer(l, k).s, dt, cr_expr_of("a%d", i).s).s);
        cr_wgsl_add(w, "let v%d = %s;\n", i, cr_wgsl_cast(l->w->compute, dt, cr_expr_of("x%d", i).s).s);
    }
    for (int i = 0; i < p->n_param + p->n_const; i++, at += words) add_value(w, l, p->n_in + i, at);
}

/* Whole words: word w<k> collects bits until it is full or the walk ends; the other bits of the
 * last word stay. */
static void add_packed(wgsl *w, int k, int b, cr_dtype dt) {
    const int lanes = cr_wgsl_lanes(dt), bits = 32 / lanes;
    cr_wgsl_add(w, "w%d |= %s << (%du * (e %% %du));\n", k, cr_wgsl_bits(dt, cr_expr_of("y%d", k).s).s, bits, lanes);
    cr_wgsl_add(w, "if e %% %du == %du { b%d_set(o%d / %du, w%d); w%d = 0u; }\n", lanes, lanes - 1, b, k, lanes, k, k);
    cr_wgsl_add(w,
                "else if e + 1u == numel { let mask = (1u << (%du * (e %% %du + 1u))) - 1u; b%d_set(o%d / %du, "
                "(b%d_word(o%d / %du) & ~mask) | w%d); }\n",
                bits, lanes, b, k, lanes, b, k, lanes, k);
}

static void add_results(wgsl *w, const plan *l) {
    for (int k = 0; k < l->w->n_out; k++) {
        const cr_dtype dt = l->w->out[k].dtype;
        cr_wgsl_add(w, "let o%d = %s;\n", k, offset_of(l, k).s);
        cr_wgsl_add(w, "let y%d = %s;\n", k,
                    cr_wgsl_cast(dt, l->w->compute, cr_expr_of("v%d", l->w->program->out[k]).s).s);
        if (l->whole_words && cr_wgsl_lanes(dt) > 1) add_packed(w, k, l->of[k], dt);
        else cr_wgsl_store(w, buffer(l, k).s, dt, cr_expr_of("o%d", k).s, cr_expr_of("y%d", k).s);
    }
}

static wgsl text_of(const gpu *g, const plan *l) {
    const cr_program *p = l->w->program;
    wgsl w = {.subgroups = g->subgroups};
    cr_wgsl_add(&w, "struct parameters { zero: u32, numel: u32, fault: u32, words: array<vec4<u32>, %d> }\n",
                GPU_PARAMETER_WORDS / 4 - 1);
    for (int b = 0; b < l->buffers; b++)
        cr_wgsl_words(&w, cr_expr_of("b%d", b).s, l->written >> b & 1, l->shared >> b & 1);
    if (l->divides) {
        const char *type = cr_wgsl_type(l->w->compute), *one = cr_wgsl_wide(l->w->compute) ? "1u, 0u" : "1";
        cr_wgsl_add(
            &w,
            "fn divisor(x: %s) -> %s { if all(x == %s(0)) { b%d_set(4u * p.fault, 0u); return %s(%s); } return x; }\n",
            type, type, type, l->buffers - 1, type, one);
    }
    for (int k = 0; p->chain && k < p->chain->n_links; k++)
        cr_wgsl_add(&w, "fn link%d(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ %s); }\n", k,
                    parameter(l->links_at + k).s);
    cr_wgsl_add(&w, "fn kernel(group: u32, lane: u32, i: u32) {\nlet numel = p.numel;\n");
    for (int k = 0; k < l->w->n_out; k++)
        if (l->whole_words && cr_wgsl_lanes(l->w->out[k].dtype) > 1) cr_wgsl_add(&w, "var w%d = 0u;\n", k);
    if (l->elements == 1) cr_wgsl_add(&w, "let e = i;\nif e >= numel { return; }\n");
    else
        cr_wgsl_add(&w, "for (var e = i * %du; e < min(i * %du + %du, numel); e++) {\n", l->elements, l->elements,
                    l->elements);
    add_coordinates(&w, l);
    add_inputs(&w, l);
    for (int i = 0; i < p->n_instr; i++)
        add_instruction(&w, l->w->compute, p, i);
    add_results(&w, l);
    cr_wgsl_add(&w, l->elements == 1 ? "}\n" : "}\n}\n");
    cr_wgsl_end(&w, GPU_GROUP);
    return w;
}

/* ---- dispatches */

static void push_bytes(parameters *q, cr_dtype dt, const unsigned char bytes[8]) {
    uint32_t words[2] = {0};
    memcpy(words, bytes, cr_dtype_size(dt));
    if (cr_dtype_kind(dt) == CR_KIND_SIGNED && cr_dtype_size(dt) < 4) words[0] = (uint32_t)cr_load_i64(bytes, dt);
    push_word(q, words[0]);
    if (cr_wgsl_wide(dt)) push_word(q, words[1]);
}

static void push_number(parameters *q, cr_dtype dt, double v) {
    unsigned char bytes[8] = {0};
    cr_store_f64(bytes, dt, v);
    push_bytes(q, dt, bytes);
}

static cr_status fill_parameters(parameters *q, const plan *l, int fault) {
    const cr_walk *w = l->w;
    const cr_program *p = w->program;
    const int links = p->chain ? p->chain->n_links : 0;
    if (l->links_at + links > GPU_PARAMETER_WORDS)
        return cr_fail(CR_BAD_VALUE, p->name, "the program has too many constants for a GPU: %d", p->n_const);
    q->n = 0;
    push_word(q, 0);
    push_word(q, (uint32_t)w->numel);
    push_word(q, (uint32_t)fault);
    push_word(q, 0);
    for (int d = 0; d < l->ndim; d++) push_word(q, d < w->ndim ? (uint32_t)w->shape[d] : 1);
    for (int k = 0; k < w->n_out + w->n_in; k++) {
        const int64_t before = l->of[k] == HOST ? 0 : (int64_t)(l->at[l->of[k]] / cr_dtype_size(operand(w, k)->dtype));
        push_word(q, (uint32_t)(operand(w, k)->offset - before));
        /* modulo 2^32: negative strides wrap */
        for (int d = 0; d < l->ndim; d++) push_word(q, (uint32_t)stride(l, k, d));
    }
    for (int i = 0; i < w->n_in; i++) {
        unsigned char bytes[8] = {0};
        if (l->of[w->n_out + i] != HOST) continue;
        cr_convert(bytes, w->compute, w->in[i].data, w->in[i].dtype);
        push_bytes(q, w->compute, bytes);
    }
    for (int i = 0; i < p->n_param; i++) push_number(q, w->compute, w->params[i]);
    for (int i = 0; i < p->n_const; i++) push_number(q, w->compute, p->consts[i]);
    for (int i = 0; i < links; i++) push_word(q, 0);  /* zeros that the compiler takes for different numbers */
    return CR_OK;
}

static cr_status check_walk(const cr_walk *w) {
    const cr_device *d = w->out[0].storage->dev;
    bool f64 = w->compute == CR_F64;
    for (int k = 0; k < w->n_out + w->n_in; k++) f64 |= operand(w, k)->dtype == CR_F64 && !operand(w, k)->data;
    if (f64)
        return cr_fail(CR_BAD_TYPE, w->program->name,
                       "%s cannot compute in float64, it only stores it: use float32, or move the tensor to the cpu",
                       d->name);
    for (int i = 0; i < w->program->n_instr; i++)
        if (!op_text(w->program->instr[i].op, w->compute))
            return cr_gpu_cannot(w->program->name, d, cr_dtype_name(w->compute));
    return CR_OK;
}

static cr_status dispatch_walk(gpu *g, const cr_walk *w);

/* Splits the walk across the axis along which the operands extend furthest, at a whole number of
 * words. */
static cr_status run_halves(gpu *g, const cr_walk *w) {
    int axis = 0;
    int64_t reach = 0;
    for (int k = 0; k < w->n_out + w->n_in; k++) {
        const cr_arg *a = operand(w, k);
        if (!a->storage) continue;
        for (int d = 0; d < w->ndim; d++) {
            const int64_t far = (w->shape[d] - 1) * gpu_abs(a->strides[d]) * (int64_t)cr_dtype_size(a->dtype);
            if (far > reach) reach = far, axis = d;
        }
    }
    /* two parts of one tensor, far apart */
    if (reach < 256) return cr_gpu_fail_window(g, w->program->name, ((gpu_buffer *)w->out[0].storage->data)->bytes);
    cr_walk half[2] = {*w, *w};
    const int64_t n = w->shape[axis], first = n > 2 * GPU_GROUP ? n / 2 / GPU_GROUP * GPU_GROUP : n / 2;
    half[0].shape[axis] = first;
    half[1].shape[axis] = n - first;
    for (int i = 0; i < 2; i++) half[i].numel = w->numel / n * half[i].shape[axis];
    for (int k = 0; k < w->n_out + w->n_in; k++) {
        cr_arg *a = k < w->n_out ? &half[1].out[k] : &half[1].in[k - w->n_out];
        a->offset += first * a->strides[axis];
    }
    cr_status status = dispatch_walk(g, &half[0]);
    return status == CR_OK ? dispatch_walk(g, &half[1]) : status;
}

static cr_status dispatch_walk(gpu *g, const cr_walk *w) {
    const char *name = w->program->name;
    plan l;
    parameters q;
    if (!plan_of(g, w, &l)) return run_halves(g, w);
    const int fault = l.divides ? cr_gpu_fault_new(g, name, 0) : 0;
    if (fault < 0) return cr_error_status();
    if (l.divides) l.buffer[l.buffers - 1] = g->faults;
    cr_status status = fill_parameters(&q, &l, fault);
    if (status != CR_OK) return status;
    const gpu_key key = key_of(&l);
    const gpu_pipeline *p = cr_gpu_pipeline_find(g, &key);
    if (!p) {
        wgsl text = text_of(g, &l);
        p = cr_gpu_pipeline_from(g, name, &key, &text);
        if (!p) return cr_error_status();
    }
    const uint64_t group = (uint64_t)GPU_GROUP * (uint64_t)l.elements;
    return cr_gpu_dispatch(g, name, p, l.buffer, l.at, q.words, 4 * (size_t)q.n,
                           ((uint64_t)w->numel + group - 1) / group, 0);
}

cr_status cr_gpu_elementwise(const cr_elementwise_args *args) {
    const cr_walk *walks = args->walks;
    const int64_t count = args->count;
    if (!count) return CR_OK;
    for (int64_t i = 0; i < count; i++) {
        cr_status bad = check_walk(&walks[i]);
        if (bad != CR_OK) return bad;
    }
    gpu *g = cr_gpu_enter(walks->program->name, walks->out[0].storage->dev);
    if (!g) return cr_error_status();
    cr_status status = CR_OK;
    for (int64_t i = 0; i < count; i++)
        if (status == CR_OK) status = dispatch_walk(g, &walks[i]);
    return cr_gpu_leave(g, status);
}

static cr_status run_copy(const cr_array *dst, const cr_array *src, const void *value) {
    const cr_walk w = cr_walk_of_copy(dst, src, value);
    return cr_gpu_elementwise(&(cr_elementwise_args){&w, w.numel > 0});
}
cr_status cr_gpu_copy(const cr_copy_args *args) {
    const cr_array *dst = &args->dst, *src = &args->src;
    return run_copy(dst, src, NULL);
}
cr_status cr_gpu_fill(const cr_fill_args *args) {
    const cr_array *dst = &args->dst;
    const void *value = args->value;
    return run_copy(dst, NULL, value);
}
