/* wgsl.c - see wgsl.h. */
#include "wgsl.gen.h"
#include "wgsl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cr_wgsl_add(wgsl *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    cr_out_vformat(&w->out, format, args);
    va_end(args);
}

void cr_wgsl_free(wgsl *w) { cr_out_free(&w->out); }

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

/* ---- files */
void cr_wgsl_const(wgsl *w, const char *name, int value) {
    CR_ASSERT(w->constants < (int)(sizeof w->constant / sizeof *w->constant));
    w->constant[w->constants++] = (wgsl_constant){name, value};
    cr_wgsl_add(w, "const %s = %du;\n", name, value);
}

static int value_of(const wgsl *w, const char *name) {
    for (int i = 0; i < w->constants; i++)
        if (!strcmp(w->constant[i].name, name)) return w->constant[i].value;
    return 0;
}

/* n characters and a line's end, with the values of the loops in place of $k. */
static void add_line(wgsl *w, const char *line, size_t n) {
    for (const char *end = line + n; line < end;) {
        const size_t plain = strcspn(line, "$\n");
        cr_out_put(&w->out, line, plain);
        line += plain;
        if (line >= end) break;
        for (int i = 0; i < w->loops; i++)
            if (w->loop[i].variable == line[1]) cr_wgsl_add(w, "%d", w->loop[i].value);
        line += 2;
    }
    cr_out_put(&w->out, "\n", 1);
}

static const char *after_line(const char *text) {
    text += strcspn(text, "\n");
    return text + (*text == '\n');
}

/* Adds the lines up to the #else or #end that closes the block, if they are wanted; gives the
 * closing line. */
static const char *add_block(wgsl *w, const char *text, bool wanted) {
    char name[24], variable;
    while (*text && strncmp(text, "#e", 2)) {
        const char *next = after_line(text);
        if (*text != '#') {
            if (wanted) add_line(w, text, strcspn(text, "\n"));
        } else if (sscanf(text, "#if %23s", name) == 1) {
            const bool holds = value_of(w, name) != 0;
            text = add_block(w, next, wanted && holds);
            if (!strncmp(text, "#else", 5)) text = add_block(w, after_line(text), wanted && !holds);
            next = after_line(text);
        } else if (sscanf(text, "#for %c %23s", &variable, name) == 2) {
            const int level = w->loops++, times = wanted ? value_of(w, name) : 0;
            w->loop[level].variable = variable;
            text = add_block(w, next, false);
            for (int i = 0; i < times; i++) {
                w->loop[level].value = i;
                add_block(w, next, true);
            }
            w->loops--;
            next = after_line(text);
        }
        text = next;
    }
    return text;
}

void cr_wgsl_file(wgsl *w, const char *text) { add_block(w, text, true); }

void cr_wgsl_trees(wgsl *w, int trees) {
    cr_wgsl_const(w, "TREES", trees);
    if (w->subgroups) cr_wgsl_const(w, "SUBGROUPS", w->subgroups);
    cr_wgsl_file(w, cr_wgsl_tree);
}

void cr_wgsl_end(wgsl *w, int size) {
    cr_wgsl_const(w, "SIZE", size);
    cr_wgsl_file(w, cr_wgsl_main);
}

/* ---- the library: each function of it begins with `fn` at the start of a line */
static const char word_characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
enum { MOST_FUNCTIONS = 160 };
typedef struct function { const char *text; size_t bytes; bool wanted; } function;

static int functions_of(const char *library, function f[]) {
    int n = 0;
    for (const char *at = strstr(library, "fn "); at;) {
        const char *next = strstr(at, "\nfn ");
        CR_ASSERT(n < MOST_FUNCTIONS);
        f[n++] = (function){at, next ? (size_t)(next - at) + 1 : strlen(at), false};
        at = next ? next + 1 : NULL;
    }
    return n;
}

/* Marks the functions that the text calls, and those that they call. */
static void mark_calls(const char *text, size_t bytes, function f[], int n) {
    for (const char *at = text; at < text + bytes;) {
        const size_t word = strspn(at, word_characters);
        if (at[word] == '(')
            for (int i = 0; i < n; i++) {
                if (f[i].wanted || strncmp(at, f[i].text + 3, word + 1)) continue;
                f[i].wanted = true;
                mark_calls(f[i].text, f[i].bytes, f, n);
            }
        at += word ? word : 1;
    }
}

bool cr_wgsl_uses_halves(const wgsl *w) {
    function f[] = {{"fn f16_of(", 0, false}, {"fn to_f16(", 0, false}};
    mark_calls(w->out.text, w->out.bytes, f, 2);
    return f[0].wanted || f[1].wanted;
}

char *cr_wgsl_complete(const wgsl *w, bool native_halves) {
    function f[MOST_FUNCTIONS];
    wgsl library = {0};
    cr_out whole = {0};
    cr_wgsl_const(&library, "NATIVE_HALVES", native_halves);
    cr_wgsl_file(&library, cr_wgsl_library);
    cr_out_format(&whole, "@group(0) @binding(0) var<uniform> p: parameters;\n");
    if (!w->out.failed && !library.out.failed) {
        const int n = functions_of(library.out.text, f);
        mark_calls(w->out.text, w->out.bytes, f, n);
        for (int i = 0; i < n; i++)
            if (f[i].wanted) cr_out_put(&whole, f[i].text, f[i].bytes);
        cr_out_put(&whole, w->out.text, w->out.bytes);
    }
    cr_wgsl_free(&library);
    if (!w->out.failed && !library.out.failed && !whole.failed) return whole.text;
    cr_out_free(&whole);
    return NULL;
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

/* ---- memory */
void cr_wgsl_storage(wgsl *w, const char *x, const char *type, bool written) {
    const char *access = written ? "read_write" : "read";
    w->written |= (uint32_t)written << w->arrays;
    cr_wgsl_add(w, "@group(0) @binding(%d) var<storage, %s> %s: array<%s>;\n", ++w->arrays, access, x, type);
}

void cr_wgsl_words(wgsl *w, const char *x, bool written, bool shared) {
    const char *const load = shared ? "atomicLoad(&%s[i])" : "%s[i]";
    const char *const store = shared ? "atomicStore(&%s[i], v)" : "%s[i] = v";
    cr_wgsl_storage(w, x, shared ? "atomic<u32>" : "u32", written);
    cr_wgsl_add(w, "fn %s_word(i: u32) -> u32 { return %s; }\n", x, cr_expr_of(load, x).s);
    if (written) cr_wgsl_add(w, "fn %s_set(i: u32, v: u32) { %s; }\n", x, cr_expr_of(store, x).s);
    if (shared)
        cr_wgsl_add(w, "fn %s_part(i: u32, mask: u32, v: u32) { atomicAnd(&%s[i], ~mask); atomicOr(&%s[i], v); }\n", x,
                    x, x);
}

void cr_wgsl_array(wgsl *w, const char *x, cr_dtype dt, bool written) {
    cr_wgsl_words(w, x, written, written && cr_wgsl_lanes(dt) > 1);
    cr_wgsl_add(w, "fn load_%s(at: u32) -> %s { return %s; }\n", x, cr_wgsl_type(dt), cr_wgsl_load(x, dt, "at").s);
    if (!written) return;
    cr_wgsl_add(w, "fn store_%s(at: u32, v: %s) { ", x, cr_wgsl_type(dt));
    cr_wgsl_store(w, x, dt, "at", "v");
    cr_wgsl_add(w, "}\n");
}

static const char *half_of(cr_dtype dt) {           /* the function that reads an element of a word of two */
    return dt == CR_BF16 ? "bf16_of" : dt == CR_F16 ? "f16_of" : is_signed(dt) ? "i16_of" : "u16_of";
}

void cr_wgsl_load2(wgsl *w, const char *x, cr_dtype dt) {
    const char *type = cr_wgsl_type(dt), *of = half_of(dt);
    cr_wgsl_add(w, "fn load2_%s(at: u32) -> vec2<%s> { let w = %s_word(at / 2u); ", x, type, x);
    cr_wgsl_add(w, "return vec2<%s>(%s(w, 0u), %s(w, 1u)); }\n", type, of, of);
}

void cr_wgsl_pairs(wgsl *w, const char *x, cr_dtype dt) {
    const char *type = cr_wgsl_type(dt);
    cr_wgsl_words(w, x, true, false);
    cr_wgsl_add(w, "fn load_%s(at: u32) -> %s { return %s; }\n", x, type, cr_wgsl_load(x, dt, "at").s);
    cr_wgsl_add(w, "fn store2_%s(at: u32, a: %s, b: %s) { ", x, type, type);
    cr_wgsl_add(w, "%s_set(at / 2u, %s | (%s << 16u)); }\n", x, cr_wgsl_bits(dt, "a").s, cr_wgsl_bits(dt, "b").s);
}

expr cr_wgsl_load(const char *array, cr_dtype dt, const char *at) {
    switch (dt) {
        case CR_F32: return cr_expr_of("bitcast<f32>(%s_word(%s))", array, at);
        case CR_I32: return cr_expr_of("bitcast<i32>(%s_word(%s))", array, at);
        case CR_U32: return cr_expr_of("%s_word(%s)", array, at);
        case CR_I64:
        case CR_U64: return cr_expr_of("vec2<u32>(%s_word(2u * (%s)), %s_word(2u * (%s) + 1u))", array, at, array, at);
        case CR_BF16: return cr_expr_of("bf16_of(%s_word((%s) / 2u), %s)", array, at, at);
        case CR_F16: return cr_expr_of("f16_of(%s_word((%s) / 2u), %s)", array, at, at);
        default: break;
    }
    const int lanes = cr_wgsl_lanes(dt);
    return cr_expr_of("%s%d_of(%s_word((%s) / %du), %s)", is_signed(dt) ? "i" : "u", bits_of(dt), array, at, lanes, at);
}

expr cr_wgsl_bits(cr_dtype dt, const char *x) {
    switch (dt) {
        case CR_F32: case CR_I32: return cr_expr_of("bitcast<u32>(%s)", x);
        case CR_U32: return cr_expr_of("%s", x);
        case CR_BF16: return cr_expr_of("to_bf16(%s)", x);
        case CR_F16: return cr_expr_of("to_f16(%s)", x);
        default:
            return cr_expr_of(is_signed(dt) ? "(bitcast<u32>(%s) & %du)" : "(%s & %du)", x, (1 << bits_of(dt)) - 1);
    }
}

expr cr_wgsl_key(cr_dtype dt, const char *x) {
    if (cr_wgsl_wide(dt)) return cr_expr_of(is_signed(dt) ? "(%s ^ vec2<u32>(0u, 0x80000000u))" : "%s", x);
    return cr_expr_of(cr_dtype_is_float(dt) ? "vec2<u32>(float_key(%s), 0u)"
                      : is_signed(dt)       ? "vec2<u32>(bitcast<u32>(%s) ^ 0x80000000u, 0u)"
                                            : "vec2<u32>(%s, 0u)",
                      x);
}

void cr_wgsl_key_function(wgsl *w, cr_dtype dt, bool reverse) {
    const expr key = cr_wgsl_key(dt, "x");
    cr_wgsl_add(w, "fn key_of(x: %s) -> vec2<u32> { return %s%s; }\n", cr_wgsl_type(dt), reverse ? "~" : "", key.s);
}

void cr_wgsl_moved_function(wgsl *w, cr_dtype dt) {
    const cr_dtype moved = cr_dtype_bits(dt);
    const expr x = cr_wgsl_load("x", moved, "at");
    cr_wgsl_add(w, "fn moved_x(at: u32) -> %s { return %s; }\n", cr_wgsl_type(moved), x.s);
}

void cr_wgsl_store(wgsl *w, const char *array, cr_dtype dt, const char *at, const char *x) {
    const int lanes = cr_wgsl_lanes(dt);
    if (cr_wgsl_wide(dt))
        cr_wgsl_add(w, "%s_set(2u * (%s), (%s).x); %s_set(2u * (%s) + 1u, (%s).y); ", array, at, x, array, at, x);
    else if (lanes == 1) cr_wgsl_add(w, "%s_set(%s, %s); ", array, at, cr_wgsl_bits(dt, x).s);
    else
        cr_wgsl_add(w, "{ let s = %du * ((%s) %% %du); %s_part((%s) / %du, %uu << s, %s << s); } ", bits_of(dt), at,
                    lanes, array, at, lanes, (1u << bits_of(dt)) - 1, cr_wgsl_bits(dt, x).s);
}

/* ---- conversions */
void cr_wgsl_cast_function(wgsl *w, const char *name, cr_dtype to, cr_dtype from) {
    const expr cast = cr_wgsl_cast(to, from, "x");
    cr_wgsl_add(w, "fn %s(x: %s) -> %s { return %s; }\n", name, cr_wgsl_type(from), cr_wgsl_type(to), cast.s);
}

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

/* Between integers: the low bits, extended by the sign of the source. */
static expr cast_integer(cr_dtype to, cr_dtype from, const char *x) {
    if (cr_wgsl_wide(to)) {
        if (cr_wgsl_wide(from)) return cr_expr_of("%s", x);
        return is_signed(from) ? cr_expr_of("vec2<u32>(bitcast<u32>(%s), bitcast<u32>(%s >> 31u))", x, x)
                               : cr_expr_of("vec2<u32>(%s, 0u)", x);
    }
    const expr low = cr_wgsl_wide(from) ? cr_expr_of("(%s).x", x) : cr_expr_of("%s", x);
    const bool have = !cr_wgsl_wide(from) && is_signed(from);
    const expr word = is_signed(to) == have ? low : cr_expr_of(have ? "bitcast<u32>(%s)" : "bitcast<i32>(%s)", low.s);
    const int n = bits_of(to);
    if (n == 32 || to == from) return word;
    return is_signed(to) ? cr_expr_of("((%s << %du) >> %du)", word.s, 32 - n, 32 - n)
                         : cr_expr_of("(%s & %du)", word.s, (1 << n) - 1);
}

expr cr_wgsl_cast(cr_dtype to, cr_dtype from, const char *x) {
    if (to == from) return cr_expr_of("%s", x);
    if (to == CR_BOOL) return cast_to_bool(from, x);
    if (cr_dtype_is_float(to)) {
        if (cr_dtype_is_float(from)) return cr_expr_of("%s", x);          /* rounded when it is stored */
        if (cr_wgsl_wide(from)) return cr_expr_of(is_signed(from) ? "i64_to_f32(%s)" : "u64_to_f32(%s)", x);
        return from == CR_I32   ? cr_expr_of("i32_to_f32(%s)", x)
               : from == CR_U32 ? cr_expr_of("u32_to_f32(%s)", x)
                                : cr_expr_of("f32(%s)", x);
    }
    return cr_dtype_is_float(from) ? cast_from_float(to, x) : cast_integer(to, from, x);
}
