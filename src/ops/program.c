/* program.c - cr_program: a fused elementwise expression written at run time.  A recursive-descent
 * parser over
 *
 *   body       = { name "=" expression ";" } expression { "," expression } [ ";" ]
 *   expression = sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
 *   sum        = product { ("+" | "-") product }            product = unary { ("*" | "/") unary }
 *   unary      = "-" unary | power                          power   = atom [ "**" unary ]
 *   atom       = number | name | function "(" expression { "," expression } ")" | "(" expression ")"
 *
 * A function is a row of ops.def (its params follow its inputs), or min or max.  apply.c and
 * update.c run programs. */
#include "programs.h"
#include "../core/out.h"

#include <float.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table */
int               cr_program_count(void) { return CR_ROW_COUNT; }
const cr_program *cr_program_at(int i) { return i >= 0 && i < CR_ROW_COUNT ? &cr_rows[i] : NULL; }

static const cr_program *find_named(const cr_program *rows, int count, const char *name, size_t length) {
    for (int i = 0; i < count; i++) {
        const char *row = rows[i].name;
        if (row[0] == name[0] && !strncmp(row, name, length) && !row[length]) return &rows[i];
    }
    return NULL;
}

const cr_program *cr_program_find(const char *name) {
    if (!name) return cr_fail_null("program", "name"), NULL;
    const size_t length = strlen(name);             /* updates first: a replay asks for one in every step */
    const cr_program *row = find_named(cr_updates, CR_UPDATE_COUNT, name, length);
    if (!row) row = find_named(cr_rows, CR_ROW_COUNT, name, length);
    if (!row) cr_fail(CR_BAD_VALUE, "program", "no function or update is named '%.60s': docs/ops.md lists them", name);
    return row;
}

int cr_program_inputs(const cr_program *p, int *results, int *params) {
    if (!p) return cr_fail_null("program", "the program"), -1;
    if (results) *results = p->n_out;
    if (params) *params = p->n_param;
    return p->n_in;
}

cr_status cr_program_params(const cr_program *p, int n, const char *const *names, const double *values,
                            double *params) {
    if (!p || !names || !values || !params)
        return cr_fail_null("program_params", !p ? "the program" : !params ? "params" : "the options");
    if (p < cr_updates || p >= cr_updates + CR_UPDATE_COUNT)
        return cr_fail(CR_BAD_VALUE, "program_params", "'%s' is not an update in docs/ops.md", p->name);
    const cr_update_options *wanted = &cr_options[p - cr_updates];
    double options[sizeof wanted->names / sizeof *wanted->names];
    for (int i = 0; i < wanted->n; i++) {
        int k = 0;
        while (k < n && strcmp(names[k], wanted->names[i])) k++;
        if (k == n)
            return cr_fail(CR_BAD_VALUE, "program_params", "'%s' needs the option '%s'", p->name, wanted->names[i]);
        options[i] = values[k];
    }
    if (wanted->fill) wanted->fill(options, params);
    else memcpy(params, options, sizeof *params * (size_t)wanted->n);
    return CR_OK;
}

/* ---- names and position */
enum { MAX_DEPTH = 100, MAX_NAMES = 4096, MAX_ARGS = CR_MAX_INPUTS + CR_MAX_PARAMS };

typedef struct name { const char *text; size_t length; int value; } name;
typedef struct parser {
    const char *op, *body, *at;                     /* op: the program's name */
    cr_build b;
    name *names; int n_names; int64_t room;
    int depth;
    bool failed;
} parser;

/* Every syntax error: what and where.  Returns -1, no value. */
static int wrong(parser *s, const char *at, const char *what, const char *accepted) {
    if (!s->failed)
        cr_fail(CR_BAD_VALUE, s->op, "%s at character %d, before '%.20s': %s", what, (int)(at - s->body) + 1, at,
                accepted);
    s->failed = true;
    return -1;
}

/* ASCII, whatever the locale */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static void skip_space(parser *s) { while (*s->at == ' ' || (*s->at >= '\t' && *s->at <= '\r')) s->at++; }

static bool take_token(parser *s, const char *token) {
    skip_space(s);
    size_t n = strlen(token);
    if (strncmp(s->at, token, n)) return false;
    s->at += n;
    return true;
}

static size_t name_length(const char *at) {
    size_t n = 0;
    if (starts_name(*at)) while (starts_name(at[n]) || is_digit(at[n])) n++;
    return n;
}

static name *find_name(parser *s, const char *text, size_t length) {
    for (int i = 0; i < s->n_names; i++)
        if (s->names[i].length == length && !memcmp(s->names[i].text, text, length)) return &s->names[i];
    return NULL;
}

static bool define(parser *s, const char *text, size_t length, int value) {
    if (find_name(s, text, length))
        return wrong(s, text, "a name given twice", "every name stands for one value, choose another"), false;
    if (s->n_names == MAX_NAMES) return wrong(s, text, "too many names", "at most 4096"), false;
    if (!cr_grow(&s->names, s->n_names + 1, &s->room, sizeof *s->names)) {
        cr_no_memory(s->op);
        s->failed = true;
        return false;
    }
    s->names[s->n_names++] = (name){text, length, value};
    return true;
}

/* ---- expressions: each returns a value of the builder, or -1 */
static int expression(parser *s);
static int unary(parser *s);

static int op2(parser *s, int opcode, int a, int b) { return s->failed ? -1 : cr_build_op(&s->b, opcode, a, b, -1); }

/* Digits with at most one point and an exponent; strtod reads them with the locale's point. */
static int number(parser *s) {
    char text[64];
    size_t n = 0, point = strlen(localeconv()->decimal_point);
    const char *start = s->at;
    bool digits = false;
    for (bool seen = false; is_digit(*s->at) || (*s->at == '.' && !seen); s->at++) {
        if (n + point + 8 > sizeof text) return wrong(s, start, "a number that is too long", "at most 50 characters");
        if (*s->at == '.') { memcpy(text + n, localeconv()->decimal_point, point); n += point; seen = true; }
        else { text[n++] = *s->at; digits = true; }
    }
    if (!digits) return wrong(s, start, "not a number", "digits such as 0.5 or 1e-3");
    size_t sign = s->at[0] && (s->at[1] == '-' || s->at[1] == '+');
    if ((*s->at == 'e' || *s->at == 'E') && is_digit(s->at[1 + sign])) {
        size_t end = 1 + sign;
        while (is_digit(s->at[end])) end++;
        if (end > 6) return wrong(s, start, "an exponent that is too long", "at most 4 digits");
        memcpy(text + n, s->at, end);
        n += end;
        s->at += end;
    }
    if (starts_name(*s->at) || *s->at == '.')
        return wrong(s, s->at, "unexpected text after a number", "an operator, ')' or ';'");
    text[n] = 0;
    double k = strtod(text, NULL);
    if (k > DBL_MAX) return wrong(s, start, "a number out of range", "at most 1.79e308");
    return cr_build_const(&s->b, k);
}

static int call(parser *s, const char *text, size_t length) {
    const cr_program *row = find_named(cr_rows, CR_ROW_COUNT, text, length);
    if (!row && length == 3 && !memcmp(text, "min", 3)) row = &cr_rows[CR_ROW_MINIMUM];
    if (!row && length == 3 && !memcmp(text, "max", 3)) row = &cr_rows[CR_ROW_MAXIMUM];
    if (!row) return wrong(s, text, "an unknown function", "any elementwise function of chainrule.h without its cr_");
    if (row->rule == CR_RULE_BITS) return wrong(s, text, "a function on bits", "programs compute in floats");
    int args[MAX_ARGS], n = 0, want = row->n_in + row->n_param;
    do {
        int v = expression(s);
        if (v < 0) return -1;
        if (n == want) return wrong(s, text, "too many arguments", row->doc);
        args[n++] = v;
    } while (take_token(s, ","));
    if (!take_token(s, ")")) return wrong(s, s->at, "a call that does not end", "expected ',' or ')'");
    if (n < want) return wrong(s, text, "too few arguments", row->doc);
    return cr_build_row(&s->b, row, args);
}

static int atom(parser *s) {
    skip_space(s);
    if (is_digit(*s->at) || *s->at == '.') return number(s);
    if (take_token(s, "(")) {
        int v = expression(s);
        if (v >= 0 && !take_token(s, ")")) return wrong(s, s->at, "a parenthesis that does not end", "expected ')'");
        return v;
    }
    const char *text = s->at;
    size_t length = name_length(text);
    if (!length)
        return wrong(s, text, *text ? "not a value" : "the text ends early",
                     "expected a number, a name, a call or '('");
    s->at += length;
    if (take_token(s, "(")) return call(s, text, length);
    const name *known = find_name(s, text, length);
    if (!known) return wrong(s, text, "an unknown name", "inputs, params and names assigned before");
    return known->value;
}

/* x ** c for the constants that have an exact and faster form. */
static int power_of(parser *s, int x, int c) {
    cr_build *b = &s->b;
    if (cr_build_is(b, c, 1)) return x;
    if (cr_build_is(b, c, 2)) return op2(s, CR_OP_MUL, x, x);
    if (cr_build_is(b, c, 3)) return op2(s, CR_OP_MUL, op2(s, CR_OP_MUL, x, x), x);
    if (cr_build_is(b, c, 0.5)) return cr_build_op(b, CR_OP_SQRT, x, -1, -1);
    if (cr_build_is(b, c, -1)) return op2(s, CR_OP_DIV, cr_build_const(b, 1), x);
    return op2(s, CR_OP_POW, x, c);
}

static int power(parser *s) {
    int x = atom(s);
    if (x < 0 || !take_token(s, "**")) return x;
    int c = unary(s);
    return c < 0 ? -1 : power_of(s, x, c);
}

static int unary(parser *s) {
    if (++s->depth > MAX_DEPTH) return wrong(s, s->at, "nested too deep", "at most 100 levels: name a part");
    int v;
    if (take_token(s, "-")) {
        v = unary(s);
        if (v >= 0) v = cr_build_op(&s->b, CR_OP_NEG, v, -1, -1);
    } else {
        v = power(s);
    }
    s->depth--;
    return v;
}

static int product(parser *s) {
    int v = unary(s);
    for (;;) {
        skip_space(s);
        if (v < 0 || !strncmp(s->at, "**", 2) || (*s->at != '*' && *s->at != '/')) return v;
        int opcode = *s->at++ == '*' ? CR_OP_MUL : CR_OP_DIV;
        v = op2(s, opcode, v, unary(s));
    }
}

static int sum(parser *s) {
    int v = product(s);
    for (;;) {
        skip_space(s);
        if (v < 0 || (*s->at != '+' && *s->at != '-')) return v;
        int opcode = *s->at++ == '+' ? CR_OP_ADD : CR_OP_SUB;
        v = op2(s, opcode, v, product(s));
    }
}

static int comparison(parser *s) {
    static const struct { const char *token; int opcode; } tests[] = {
        {"<=", CR_OP_LE}, {">=", CR_OP_GE}, {"==", CR_OP_EQ}, {"!=", CR_OP_NE}, {"<", CR_OP_LT}, {">", CR_OP_GT}};
    for (int i = 0; i < 6; i++)
        if (take_token(s, tests[i].token)) return tests[i].opcode;
    return -1;
}

static int expression(parser *s) {
    int v = sum(s), opcode;
    if (v < 0 || (opcode = comparison(s)) < 0) return v;
    v = op2(s, opcode, v, sum(s));
    const char *at = s->at;
    if (v >= 0 && comparison(s) >= 0) return wrong(s, at, "a chain of comparisons", "compare twice: (a < b) * (b < c)");
    return v;
}

/* ---- statements */

/* Space-separated names: inputs become input(b, 0), input(b, 1), ...  Returns how many, or -1. */
static int declare(parser *s, const char *list, int (*make)(cr_build *, int), int most, const char *limit) {
    int n = 0;
    const char *body = s->body;
    s->body = s->at = list;
    for (skip_space(s); *s->at && !s->failed; skip_space(s)) {
        size_t length = name_length(s->at);
        if (!length) wrong(s, s->at, "not a name", "letters, digits and _, separated by spaces");
        else if (n == most) wrong(s, s->at, "too many", limit);
        else if (define(s, s->at, length, make(&s->b, n))) n++;
        s->at += length;
    }
    s->body = s->at = body;
    return s->failed ? -1 : n;
}

/* name = expression ;   false: the rest is the list of results */
static bool assignment(parser *s) {
    skip_space(s);
    const char *text = s->at;
    size_t length = name_length(text);
    s->at += length;
    if (!length || !take_token(s, "=") || *s->at == '=') { s->at = text; return false; }
    int v = expression(s);
    if (v >= 0 && !take_token(s, ";")) wrong(s, s->at, "a statement that does not end", "expected an operator or ';'");
    return v >= 0 && !s->failed && define(s, text, length, v);
}

static int results(parser *s, int *out) {
    int n = 0;
    skip_space(s);
    if (!*s->at) return wrong(s, s->at, "no result", "end with the results, as in 'y = a * b; y'");
    do {
        int v = expression(s);
        if (v < 0) return -1;
        if (n == CR_MAX_OUTPUTS) return wrong(s, s->at, "too many results", "at most 5");
        out[n++] = v;
    } while (take_token(s, ","));
    take_token(s, ";");
    skip_space(s);
    if (*s->at)
        return wrong(s, s->at, "text after the results",
                     "expected the end; only 'name = expression;' may come before them");
    return n;
}

cr_program *cr_program_new(const char *name_, const char *inputs, const char *params, const char *body) {
    const char *op = name_ && *name_ ? name_ : "program";
    if (!name_ || !inputs || !params || !body)
        return cr_fail_null("program", !name_ ? "name" : !inputs ? "inputs" : !params ? "params" : "body"), NULL;
    if (!*name_ || name_length(name_) != strlen(name_) || strlen(name_) > 50)
        return cr_fail(CR_BAD_VALUE, "program", "'%.60s' is not a name: 1 to 50 letters, digits and _", name_), NULL;
    parser s = {.op = op, .body = body};
    cr_program *p = NULL;
    cr_build_result r = {.name = name_, .doc = body};
    r.n_in = declare(&s, inputs, cr_build_input, CR_MAX_INPUTS, "at most 12 inputs");
    if (!s.failed && r.n_in == 0) { cr_fail(CR_BAD_VALUE, op, "no inputs: name at least one"); s.failed = true; }
    if (!s.failed) r.n_param = declare(&s, params, cr_build_param, CR_MAX_PARAMS, "at most 8 params");
    while (!s.failed && !s.b.failed && assignment(&s)) {}
    if (!s.failed && !s.b.failed) r.n_out = results(&s, r.out);
    if (!s.failed) p = cr_build_finish(&s.b, &r);
    free(s.names);
    cr_build_free(&s.b);
    return p;
}

/* ---- running one for its result */
static bool runs(const cr_program *p, int n, const cr_tensor *const *in, const double *params) {
    if (!p) return cr_fail_null("program", "the program"), false;
    if (!in) return cr_fail_null(p->name, "in"), false;
    if (n != p->n_in) return cr_fail(CR_BAD_VALUE, p->name, "takes %d inputs, got %d", p->n_in, n), false;
    if (p->n_param && !params) return cr_fail(CR_BAD_VALUE, p->name, "takes %d params, got NULL", p->n_param), false;
    if (p->n_out != 1)
        return cr_fail(CR_BAD_VALUE, p->name, "has %d results: cr_program_update writes them in place", p->n_out),
               false;
    return true;
}

cr_tensor *cr_program_apply(const cr_program *p, int n, const cr_tensor *const *in, const double *params) {
    return runs(p, n, in, params) ? cr_apply_program(p, in, params) : NULL;
}

cr_tensor *cr_program_apply_(const cr_program *p, cr_tensor *x, int n, const cr_tensor *const *in,
                             const double *params) {
    return runs(p, n, in, params) ? cr_apply_program_(p, x, in, params) : NULL;
}
