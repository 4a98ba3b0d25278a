/* print.c - a tensor as text, as PyTorch prints it. */
#include "../core/out.h"
#include "../core/status.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char op[] = "format";
static const char start[] = "tensor(";

cr_format_options cr_format_defaults(void) {
    return (cr_format_options){.precision = 4, .edgeitems = 3, .linewidth = 80, .sci_mode = -1, .threshold = 1000,
                               .dtypes = ""};
}

/* The shown elements, in order, and how each is written. */
typedef struct printer {
    cr_out text;
    const cr_format_options *o;
    const cr_tensor *t;                             /* whole */
    const int64_t *shown;                           /* its shape, without the middle of long axes */
    cr_dtype dt;                                    /* of values: f64, i64, u64 or bool */
    const char *next;                               /* of values */
    bool whole, scientific;                         /* floats: no fractions; with an exponent */
    size_t width;
} printer;

/* ---- one element */
static void use_point(cr_out *out, size_t from) {          /* whatever the locale's decimal point is */
    const char *point = localeconv()->decimal_point;
    char *at = strcmp(point, ".") ? strstr(out->text + from, point) : NULL;
    if (!at) return;
    const size_t bytes = strlen(point);
    *at = '.';
    memmove(at + 1, at + bytes, strlen(at + bytes) + 1);
    out->bytes -= bytes - 1;
}

static void put_float(const printer *p, cr_out *out, double v) {
    const size_t from = out->bytes;
    if (isnan(v)) cr_out_put(out, "nan", 3);
    else if (isinf(v)) cr_out_format(out, v < 0 ? "-inf" : "inf");
    else if (p->scientific) cr_out_format(out, "%.*e", p->o->precision, v);
    else if (p->whole) cr_out_format(out, "%.0f.", v);
    else cr_out_format(out, "%.*f", p->o->precision, v);
    if (!out->failed && !p->whole) use_point(out, from);
}

static void put_value(const printer *p, cr_out *out, const char *value) {
    union { double f; int64_t i; uint64_t u; } v;
    memcpy(&v, value, sizeof v);
    if (p->dt == CR_F64) put_float(p, out, v.f);
    else if (p->dt == CR_BOOL) cr_out_format(out, v.i ? "True" : "False");
    else if (p->dt == CR_I64) cr_out_format(out, "%lld", (long long)v.i);
    else cr_out_format(out, "%llu", (unsigned long long)v.u);
}

/* Whole numbers as `2.`, others with a fixed number of digits, or with an exponent where the finite values that are
 * not 0 span more than three decimal orders, or are very large or very small.  Only those values set the width. */
static void choose_format(printer *p, const double *values, int64_t n) {
    double least = INFINITY, most = 0;
    p->whole = true;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i]) || values[i] == 0) continue;
        least = fmin(least, fabs(values[i]));
        most = fmax(most, fabs(values[i]));
        p->whole = p->whole && values[i] == floor(values[i]);
    }
    if (most == 0) return;
    p->scientific = p->o->sci_mode >= 0 ? p->o->sci_mode : most / least > 1000 || most > 1e8 ||
                                                           (!p->whole && least < 1e-4);
}

static void choose_width(printer *p, const char *values, int64_t n) {
    cr_out one = {0};
    p->width = 1;
    for (int64_t i = 0; i < n; i++) {
        double v = 1;
        if (p->dt == CR_F64) memcpy(&v, values + 8 * i, sizeof v);
        if (v == 0 || !isfinite(v)) continue;
        one.bytes = 0;
        put_value(p, &one, values + 8 * i);
        if (one.bytes > p->width) p->width = one.bytes;
    }
    p->text.failed = p->text.failed || one.failed;
    cr_out_free(&one);
}

/* ---- all of them */
static void put_padding(cr_out *out, size_t n) { cr_out_format(out, "%*s", (int)n, ""); }

static void put_element(printer *p) {
    const size_t from = p->text.bytes;
    put_value(p, &p->text, p->next);
    p->next += 8;
    const size_t length = p->text.bytes - from, pad = length < p->width ? p->width - length : 0;
    put_padding(&p->text, pad);
    if (p->text.failed || !pad) return;
    memmove(p->text.text + from + pad, p->text.text + from, length);
    memset(p->text.text + from, ' ', pad);
}

/* One vector, as many elements in a line as fit; dots in its middle count as one. */
static void put_row(printer *p, int64_t n, bool dots, size_t indent) {
    const int64_t room = (p->o->linewidth - (int64_t)indent) / (int64_t)(p->width + 2);     /* comma and space */
    const int64_t in_line = room > 1 ? room : 1;
    for (int64_t i = 0; i < n + dots; i++) {
        if (i && i % in_line) cr_out_put(&p->text, ", ", 2);
        else if (i) { cr_out_put(&p->text, ",\n", 2); put_padding(&p->text, indent + 1); }
        if (dots && i == n / 2) cr_out_put(&p->text, " ...", 4);
        else put_element(p);
    }
}

static void put_axis(printer *p, int axis, size_t indent) {
    if (axis == cr_ndim(p->t)) { put_element(p); return; }
    const int64_t n = p->shown[axis];
    const bool dots = n < cr_size(p->t, axis);
    cr_out_put(&p->text, "[", 1);
    if (axis == cr_ndim(p->t) - 1) put_row(p, n, dots, indent);
    else for (int64_t i = 0; i < n + dots; i++) {
        if (i) cr_out_put(&p->text, ",", 1);
        for (int k = axis + 1; i && k < cr_ndim(p->t); k++) cr_out_put(&p->text, "\n", 1);
        if (i) put_padding(&p->text, indent + 1);
        if (dots && i == n / 2) cr_out_put(&p->text, "...", 3);
        else put_axis(p, axis + 1, indent + 1);
    }
    cr_out_put(&p->text, "]", 1);
}

/* t without the middle of long axes, where a summary is wanted. */
static const cr_tensor *ends_of(const cr_tensor *t, const cr_format_options *o) {
    const int64_t edge = o->edgeitems;
    const bool summary = (double)cr_numel(t) > o->threshold;
    for (int axis = 0; t && summary && axis < cr_ndim(t); axis++) {
        if (cr_size(t, axis) <= 2 * edge) continue;
        const cr_tensor *two[] = {cr_narrow(t, axis, 0, edge), cr_narrow(t, axis, cr_size(t, axis) - edge, edge)};
        t = two[0] && two[1] ? cr_cat(2, two, axis) : NULL;
    }
    return t;
}

static bool put_elements(printer *p) {
    const cr_tensor *x = ends_of(p->t, p->o);
    if (!x) return false;
    p->shown = cr_shape(x);
    const cr_dtype dt = cr_dtype_of(x);
    const int64_t n = cr_numel(x);
    const size_t bytes = (size_t)n * 8;
    p->dt = cr_dtype_is_float(dt) ? CR_F64 : dt == CR_BOOL || dt == CR_U64 ? dt : CR_I64;
    char *values = malloc(bytes ? bytes : 1);
    if (!values) return cr_no_memory(op), false;
    const bool good = cr_read(x, p->dt == CR_BOOL ? CR_I64 : p->dt, values, bytes) == CR_OK;
    if (good) {
        if (p->dt == CR_F64) choose_format(p, (const double *)(const void *)values, n);
        choose_width(p, values, n);
        p->next = values;
        put_axis(p, 0, sizeof start - 1);
    }
    free(values);
    return good;
}

/* ---- what stands behind them, each in a new line where the last one is full */
static void put_suffix(printer *p, const char *format, ...) {
    cr_out one = {0};
    va_list args;
    va_start(args, format);
    cr_out_vformat(&one, format, args);
    va_end(args);
    size_t line = p->text.bytes;
    while (!p->text.failed && line && p->text.text[line - 1] != '\n') line--;
    const bool fits = (int64_t)(p->text.bytes - line + one.bytes) + 4 <= p->o->linewidth;
    cr_out_put(&p->text, fits ? ", " : ",\n", 2);
    if (!fits) put_padding(&p->text, sizeof start - 1);
    cr_out_put(&p->text, one.text, one.bytes);
    p->text.failed = p->text.failed || one.failed;
    cr_out_free(&one);
}

static void put_size(printer *p) {
    cr_out sizes = {0};
    const int n = cr_ndim(p->t);
    for (int i = 0; i < n; i++) cr_out_format(&sizes, i ? ", %lld" : "%lld", (long long)cr_size(p->t, i));
    put_suffix(p, n == 1 ? "size=(%s,)" : "size=(%s)", sizes.text ? sizes.text : "");
    p->text.failed = p->text.failed || sizes.failed;
    cr_out_free(&sizes);
}

static void put_suffixes(printer *p, bool hidden) {
    const cr_tensor *t = p->t;
    const cr_dtype dt = cr_dtype_of(t);
    const bool unseen = hidden || !cr_numel(t);
    if (cr_device_of(t) != cr_cpu()) put_suffix(p, "device='%s'", cr_device_name(cr_device_of(t)));
    if (cr_level_of(t)) put_suffix(p, "level=%llu", (unsigned long long)cr_level_of(t));
    if (hidden || (unseen && cr_ndim(t) != 1)) put_size(p);
    if (dt != cr_default_dtype() && (unseen || (dt != CR_I64 && dt != CR_BOOL)))
        put_suffix(p, "dtype=%s%s", p->o->dtypes, cr_dtype_name(dt));
    const char *made_by = p->o->grad_fn ? p->o->grad_fn : cr_op_name(t);
    if (*made_by) put_suffix(p, "grad_fn=<%s>", made_by);
    else if (cr_requires_grad(t)) put_suffix(p, "requires_grad=True");
}

char *cr_format(const cr_tensor *t, const cr_format_options *o) {
    const cr_format_options defaults = cr_format_defaults();
    const int64_t n = cr_numel(t);
    if (n < 0) return NULL;
    if (t == CR_NONE) return cr_fail(CR_BAD_VALUE, op, "there is no tensor: CR_NONE"), NULL;
    if (!o) o = &defaults;
    if (o->precision < 0 || o->edgeitems < 0 || o->linewidth < 0 || !(o->threshold >= 0))
        return cr_fail(CR_BAD_VALUE, op, "precision %d, edgeitems %d, linewidth %d and threshold %g must be at least 0",
                       o->precision, o->edgeitems, o->linewidth, o->threshold), NULL;
    printer p = {.o = o, .t = t};
    /* a level of vmap or jvp: the tensor stands for others */
    const bool hidden = cr_level_of(t) || !strcmp(cr_device_name(cr_device_of(t)), "meta");
    const bool mode = cr_set_grad_enabled(false);
    bool good = true;
    cr_scope_begin();
    cr_out_put(&p.text, start, sizeof start - 1);
    if (hidden) cr_out_put(&p.text, "...", 3);
    else if (!n) cr_out_put(&p.text, "[]", 2);
    else good = put_elements(&p);
    cr_scope_end();
    cr_set_grad_enabled(mode);
    if (good) put_suffixes(&p, hidden);
    cr_out_put(&p.text, ")", 1);
    if (good && p.text.failed) good = (cr_no_memory(op), false);
    if (!good) cr_out_free(&p.text);
    return p.text.text;
}

cr_status cr_print(const cr_tensor *t) {
    char *text = cr_format(t, NULL);
    if (!text) return cr_error_status();
    const bool good = puts(text) >= 0;
    free(text);
    return good ? CR_OK : cr_fail(CR_IO, "print", "standard output cannot be written");
}
