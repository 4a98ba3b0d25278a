/* wgsl.c - see wgsl.h. */
#include "wgsl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cr_wgsl_add(wgsl *w, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const size_t n = (size_t)vsnprintf(NULL, 0, format, args);
    if (w->n + n + 1 > w->room) {
        char *s = realloc(w->s, 2 * (w->n + n + 1));
        w->failed |= !s;
        if (s) w->s = s, w->room = 2 * (w->n + n + 1);
    }
    if (!w->failed) w->n += (size_t)vsnprintf(w->s + w->n, w->room - w->n, format, again);
    va_end(args);
    va_end(again);
}

void cr_wgsl_free(wgsl *w) { free(w->s); }

expr cr_expr_of(const char *format, ...) {
    expr e;
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(e.s, sizeof e.s, format, args);
    va_end(args);
    CR_ASSERT(n >= 0 && n < (int)sizeof e.s);
    (void)n;
    return e;
}

/* ---- dtypes */
bool cr_wgsl_wide(cr_dtype dt) { return dt == CR_I64 || dt == CR_U64; }
static bool is_signed(cr_dtype dt) { return cr_dtype_kind(dt) == CR_KIND_SIGNED; }
static int bits_of(cr_dtype dt) { return 8 * (int)cr_dtype_size(dt); }
int cr_wgsl_lanes(cr_dtype dt) { return bits_of(dt) < 32 ? 32 / bits_of(dt) : 1; }

const char *cr_wgsl_type(cr_dtype dt) {
    if (cr_dtype_is_float(dt)) return "f32";
    return cr_wgsl_wide(dt) ? "vec2<u32>" : is_signed(dt) ? "i32" : "u32";
}

expr cr_wgsl_parameter(int i) { return cr_expr_of("p[%d].%c", i / 4, "xyzw"[i % 4]); }

/* ---- memory */
void cr_wgsl_binding(wgsl *w, int b, bool written, bool shared) {
    cr_wgsl_add(w, "@group(0) @binding(%d) var<storage, %s> b%d: array<%s>;\n", b + 1, written ? "read_write" : "read", b, shared ? "atomic<u32>" : "u32");
    cr_wgsl_add(w, "fn words%d(i: u32) -> u32 { return %s; }\n", b, shared ? cr_expr_of("atomicLoad(&b%d[i])", b).s : cr_expr_of("b%d[i]", b).s);
    if (!written) return;
    cr_wgsl_add(w, "fn set%d(i: u32, v: u32) { %s; }\n", b, shared ? cr_expr_of("atomicStore(&b%d[i], v)", b).s : cr_expr_of("b%d[i] = v", b).s);
    if (shared) cr_wgsl_add(w, "fn part%d(i: u32, mask: u32, v: u32) { atomicAnd(&b%d[i], ~mask); atomicOr(&b%d[i], v); }\n", b, b, b);
}

/* Through subgroups: each of them joins its values, one of it leaves the result in workgroup memory for all, and so on.  Every other exchange lies in the
 * other half of that, so one barrier is enough.  Without: the same pairs, by turned positions, at which neighbours lie half the workgroup apart. */
void cr_wgsl_tree(wgsl *w, const char *name, const char *type, const char *join) {
    if (!w->trees) cr_wgsl_add(w, "var<workgroup> tree: array<%s, %d>;\nvar<private> width: u32;\nvar<private> turn: u32;\n", type, GPU_GROUP);
    w->trees = true;
    cr_wgsl_add(w, "fn %s_join(a: %s, b: %s) -> %s { return %s; }\nfn %s(lane: u32, v: %s) -> %s {\n", name, type, type, type, join, name, type, type);
    if (w->subgroups)
        cr_wgsl_add(w, "    if width > 0u {\n        var x = v; var n = %du;\n        loop {\n            let most = min(n, width); n /= most;\n"
                 "            for (var half = 1u; half < most; half *= 2u) {\n                let y = subgroupShuffleXor(x, half); let low = (lane & half) == 0u;\n"
                 "                x = %s_join(select(y, x, low), select(x, y, low));\n            }\n            if n == 1u { return x; }\n"
                 "            turn ^= %du; if lane < n * most && lane %% most == 0u { tree[turn + lane / most] = x; }\n"
                 "            workgroupBarrier();\n            x = tree[turn + lane %% n];\n        }\n    }\n", GPU_GROUP, name, GPU_GROUP / 2);
    cr_wgsl_add(w, "    tree[reverseBits(lane) >> 24u] = v;\n    for (var half = %du; half > 0u; half /= 2u) { workgroupBarrier(); if lane < half { tree[lane] = %s_join(tree[lane], tree[lane + half]); } }\n"
             "    workgroupBarrier();\n    let all = tree[0];\n    workgroupBarrier();\n    return all;\n}\n", GPU_GROUP / 2, name);
}

/* Where trees go through subgroups an invocation's number follows from its place in its subgroup; width 0: some are not full, or too small to pay. */
void cr_wgsl_main(wgsl *w, int size) {
    const bool subgroups = w->subgroups && w->trees;
    cr_wgsl_add(w, "@compute @workgroup_size(%d) fn main(@builtin(local_invocation_index) %s: u32, @builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>%s) {\n", size,
             subgroups ? "invocation" : "lane",
             subgroups ? ", @builtin(subgroup_size) subgroup: u32, @builtin(num_subgroups) subgroups: u32, @builtin(subgroup_id) team: u32, @builtin(subgroup_invocation_id) member: u32" : "");
    if (subgroups) cr_wgsl_add(w, "width = select(0u, subgroup, subgroup >= 4u && subgroup * subgroups == %du);\nlet lane = select(invocation, team * subgroup + member, width > 0u);\n", size);
    cr_wgsl_add(w, "let group = workgroup.y * workgroups.x + workgroup.x;\nlet i = group * %du + lane;\n", size);
}

expr cr_wgsl_load(int b, cr_dtype dt, const char *at) {
    switch (dt) {
        case CR_F32: return cr_expr_of("bitcast<f32>(words%d(%s))", b, at);
        case CR_I32: return cr_expr_of("bitcast<i32>(words%d(%s))", b, at);
        case CR_U32: return cr_expr_of("words%d(%s)", b, at);
        case CR_I64: case CR_U64: return cr_expr_of("vec2<u32>(words%d(2u * (%s)), words%d(2u * (%s) + 1u))", b, at, b, at);
        case CR_BF16: return cr_expr_of("bf16_of(words%d((%s) / 2u), %s)", b, at, at);
        case CR_F16: return cr_expr_of("f16_of(words%d((%s) / 2u), %s)", b, at, at);
        default: break;
    }
    const int lanes = cr_wgsl_lanes(dt);
    return cr_expr_of("%s%d_of(words%d((%s) / %du), %s)", is_signed(dt) ? "i" : "u", bits_of(dt), b, at, lanes, at);
}

expr cr_wgsl_bits(cr_dtype dt, const char *x) {
    switch (dt) {
        case CR_F32: case CR_I32: return cr_expr_of("bitcast<u32>(%s)", x);
        case CR_U32: return cr_expr_of("%s", x);
        case CR_BF16: return cr_expr_of("to_bf16(%s)", x);
        case CR_F16: return cr_expr_of("to_f16(%s)", x);
        default: return cr_expr_of(is_signed(dt) ? "(bitcast<u32>(%s) & %du)" : "(%s & %du)", x, (1 << bits_of(dt)) - 1);
    }
}

expr cr_wgsl_key(cr_dtype dt, const char *x) {
    if (cr_wgsl_wide(dt)) return cr_expr_of(is_signed(dt) ? "(%s ^ vec2<u32>(0u, 0x80000000u))" : "%s", x);
    return cr_expr_of(cr_dtype_is_float(dt) ? "vec2<u32>(float_key(%s), 0u)" : is_signed(dt) ? "vec2<u32>(bitcast<u32>(%s) ^ 0x80000000u, 0u)" : "vec2<u32>(%s, 0u)", x);
}

void cr_wgsl_store(wgsl *w, int b, cr_dtype dt, const char *at, const char *x) {
    const int lanes = cr_wgsl_lanes(dt);
    if (cr_wgsl_wide(dt)) cr_wgsl_add(w, "set%d(2u * (%s), (%s).x); set%d(2u * (%s) + 1u, (%s).y);\n", b, at, x, b, at, x);
    else if (lanes == 1) cr_wgsl_add(w, "set%d(%s, %s);\n", b, at, cr_wgsl_bits(dt, x).s);
    else cr_wgsl_add(w, "{ let s = %du * ((%s) %% %du); part%d((%s) / %du, %uu << s, %s << s); }\n", bits_of(dt), at, lanes, b, at, lanes,
                  (1u << bits_of(dt)) - 1, cr_wgsl_bits(dt, x).s);
}

/* ---- conversions */
static expr cast_to_bool(cr_dtype from, const char *x) {
    if (cr_dtype_is_float(from)) return cr_expr_of("select(0u, 1u, (bitcast<u32>(%s) & 0x7fffffffu) != 0u)", x);
    if (cr_wgsl_wide(from)) return cr_expr_of("select(0u, 1u, any(%s != vec2<u32>(0u)))", x);
    return cr_expr_of(is_signed(from) ? "select(0u, 1u, %s != 0)" : "select(0u, 1u, %s != 0u)", x);
}

static expr cast_from_float(cr_dtype to, const char *x) {
    const int n = bits_of(to);
    if (cr_wgsl_wide(to)) return cr_expr_of(is_signed(to) ? "f32_to_i64(%s)" : "f32_to_u64(%s)", x);
    if (is_signed(to)) return cr_expr_of("f32_to_int(%s, -%u.0, %u)", x, 1u << (n - 1), (1u << (n - 1)) - 1);
    return cr_expr_of("f32_to_uint(%s, %uu)", x, n == 32 ? ~0u : (1u << n) - 1);
}

/* Between integers: the low bits, extended by the sign of what they came from. */
static expr cast_integer(cr_dtype to, cr_dtype from, const char *x) {
    if (cr_wgsl_wide(to)) {
        if (cr_wgsl_wide(from)) return cr_expr_of("%s", x);
        return is_signed(from) ? cr_expr_of("vec2<u32>(bitcast<u32>(%s), bitcast<u32>(%s >> 31u))", x, x) : cr_expr_of("vec2<u32>(%s, 0u)", x);
    }
    const expr low = cr_wgsl_wide(from) ? cr_expr_of("(%s).x", x) : cr_expr_of("%s", x);
    const bool have = !cr_wgsl_wide(from) && is_signed(from);
    const expr word = is_signed(to) == have ? low : cr_expr_of(have ? "bitcast<u32>(%s)" : "bitcast<i32>(%s)", low.s);
    const int n = bits_of(to);
    if (n == 32 || to == from) return word;
    return is_signed(to) ? cr_expr_of("((%s << %du) >> %du)", word.s, 32 - n, 32 - n) : cr_expr_of("(%s & %du)", word.s, (1 << n) - 1);
}

expr cr_wgsl_cast(cr_dtype to, cr_dtype from, const char *x) {
    if (to == from) return cr_expr_of("%s", x);
    if (to == CR_BOOL) return cast_to_bool(from, x);
    if (cr_dtype_is_float(to)) {
        if (cr_dtype_is_float(from)) return cr_expr_of("%s", x);          /* rounded when it is stored */
        if (cr_wgsl_wide(from)) return cr_expr_of(is_signed(from) ? "i64_to_f32(%s)" : "u64_to_f32(%s)", x);
        return from == CR_I32 ? cr_expr_of("i32_to_f32(%s)", x) : from == CR_U32 ? cr_expr_of("u32_to_f32(%s)", x) : cr_expr_of("f32(%s)", x);
    }
    return cr_dtype_is_float(from) ? cast_from_float(to, x) : cast_integer(to, from, x);
}
