/* curve.c - training and validation losses over steps as an SVG picture, with axes and a legend. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/utf8.h"

enum { WIDTH = 760, PLOT = 340, LEFT = 62, RIGHT = 22, TOP = 22, BOTTOM = 52, ROW = 20, BUCKETS = 400, TICKS = 64 };

/* Distinguishable with red-green blindness (Okabe and Ito, 2008); chainrule.viz uses the same. */
static const char *const colours[MAX_CURVES] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                "#e69f00", "#56b4e9", "#000000", "#7a5ea8"};

/* low, high: of values, or of their decimal logarithms; from, to: pixels */
typedef struct axis { bool log; double low, high; int from, to; } axis;

/* Can it be drawn?  Not NaN, not huge (a diverged run), not 0 on a logarithmic axis. */
static bool on_axis(const axis *a, double v) { return fabs(v) < 1e300 && (!a->log || v > 0); }
static double scaled(const axis *a, double v) { return a->log ? log10(v) : v; }
static double pixel(const axis *a, double v) {
    return a->from + (scaled(a, v) - a->low) / (a->high - a->low) * (a->to - a->from);
}

static void include(axis *a, double v) {
    if (!on_axis(a, v)) return;
    a->low = fmin(a->low, scaled(a, v));
    a->high = fmax(a->high, scaled(a, v));
}

/* Adds room at both ends; the span is never 0. */
static void widen(axis *a, double share) {
    if (!(a->high >= a->low)) a->low = 0, a->high = 1;
    const double span = a->high - a->low, size = fmax(fabs(a->low), fabs(a->high)),
                 room = span > 1e-6 * size ? share * span : fmax(0.05 * size, 0.5);
    a->low -= room;
    a->high += room;
}

/* A step of 1, 2 or 5 times a power of ten; about n steps cover the span. */
static double nice_step(double span, int n) {
    const double raw = span / n, power = pow(10, floor(log10(raw))), m = raw / power;
    return (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10) * power;
}

/* The values of about n ticks; *decimals: digits after the point in their labels, -1: %g. */
static int ticks(const axis *a, int n, double *at, int *decimals) {
    const double low = a->log ? pow(10, a->low) : a->low, high = a->log ? pow(10, a->high) : a->high;
    int count = 0;
    *decimals = -1;
    if (a->log && a->high - a->low > 1) {           /* 1, 2, 5, 10, 20...; or every power of ten, or of a thousand... */
        const int apart = (int)ceil((a->high - a->low) / n), parts = a->high - a->low < 0.4 * n ? 3 : 1;
        for (int power = (int)floor(a->low); power <= a->high; power += apart)
            for (int k = 0; k < parts; k++) {
                const double v = (double[]){1, 2, 5}[k] * pow(10, power);
                if (v >= low && v <= high * (1 + 1e-9) && count < TICKS) at[count++] = v;
            }
        return count;
    }
    const double step = nice_step(high - low, n);
    if (step >= 1e-6 && high < 1e7) *decimals = step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
    for (double k = ceil(low / step) + 0.0; k * step <= high + step * 1e-9 && count < TICKS; k++)
        at[count++] = k * step;
    return count;
}

static void number(double v, int decimals, char out[32]) {
    if (isnan(v)) snprintf(out, 32, "NaN");
    else snprintf(out, 32, decimals < 0 ? "%.*g" : "%.*f", decimals < 0 ? 4 : decimals, v);
}

/* Reduces the series to at most BUCKETS means, which bounds the size of the file. */
static int thin(const series *s, point *out) {
    const int64_t per = s->n > BUCKETS ? (s->n + BUCKETS - 1) / BUCKETS : 1;
    int n = 0;
    for (int64_t i = 0; i < s->n; i += per) {
        double sum = 0;
        int64_t k = 0;
        for (; k < per && i + k < s->n; k++) sum += s->at[i + k].value;
        out[n++] = (point){s->at[i + k / 2].step, sum / (double)k};
    }
    return n;
}

/* A running mean over a twentieth of the points; over fewer at the start, where losses fall. */
static void smooth(const point *p, int n, point *out) {
    for (int i = 0; i < n; i++) {
        const int reach = i < n / 40 ? i : n / 40;
        double sum = 0;
        int k = 0;
        for (int j = i - reach; j <= i + reach && j < n; j++)
            if (isfinite(p[j].value)) { sum += p[j].value; k++; }
        out[i] = (point){p[i].step, k && isfinite(p[i].value) ? sum / k : NAN};
    }
}

/* A line with gaps where a value cannot be drawn. */
static void line(FILE *f, const point *p, int n, const axis *x, const axis *y, const char *colour, const char *style) {
    bool open = false;
    for (int i = 0; i <= n; i++) {
        const bool there = i < n && on_axis(x, (double)p[i].step) && on_axis(y, p[i].value);
        if (there && !open) fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" %s points=\"", colour, style);
        if (there) fprintf(f, "%.1f,%.1f ", pixel(x, (double)p[i].step), pixel(y, p[i].value));
        if (!there && open) fprintf(f, "\"/>\n");
        open = there;
    }
}

static void axes(FILE *f, const axis *x, const axis *y, const char *unit) {
    double at[TICKS];
    char text[32];
    int decimals, n = ticks(y, 6, at, &decimals);
    for (int i = 0; i < n; i++) {
        number(at[i], decimals, text);
        fprintf(f, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e4e7ec\"/>\n", x->from, x->to,
                pixel(y, at[i]), pixel(y, at[i]));
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", x->from - 8, pixel(y, at[i]) + 4, text);
    }
    n = ticks(x, 8, at, &decimals);
    for (int i = 0; i < n; i++) {
        number(at[i], decimals, text);
        fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#98a2b3\"/>\n", pixel(x, at[i]),
                pixel(x, at[i]), y->from, y->from + 5);
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", pixel(x, at[i]), y->from + 19, text);
    }
    fprintf(f, "<polyline fill=\"none\" stroke=\"#98a2b3\" points=\"%d,%d %d,%d %d,%d\"/>\n", x->from, y->to, x->from,
            y->from, x->to, y->from);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n", (x->from + x->to) / 2, y->from + 40);
    fprintf(f, "<text x=\"16\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 16 %d)\">%s</text>\n",
            (y->from + y->to) / 2, (y->from + y->to) / 2, unit);
}

/* The last `most` bytes at most, escaped for SVG; bytes that are not UTF-8 are replaced. */
static void escaped(FILE *f, const char *s, size_t most) {
    const char *end = s + strlen(s);
    if ((size_t)(end - s) > most) {
        for (s = end - most; ((unsigned char)*s & 0xc0) == 0x80; s++) { }
        fputs("\xe2\x80\xa6", f);                  /* an ellipsis */
    }
    uint32_t code;
    for (int bytes; s < end; s += bytes ? bytes : 1) {
        bytes = cr_utf8_decode((const unsigned char *)s, (size_t)(end - s), &code);
        if (!bytes) fputc('?', f);
        else if (code == '&') fputs("&amp;", f);
        else if (code == '<') fputs("&lt;", f);
        else if (code == '>') fputs("&gt;", f);
        else if (code >= ' ') fwrite(s, 1, (size_t)bytes, f);
    }
}

static void legend(FILE *f, int x, int y, const char *colour, const char *style, const char *name, double last) {
    fprintf(f, "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"%s\" %s/>\n", x, x + 26, y - 4, y - 4, colour,
            style);
    char text[32];
    number(last, fabs(last) < 1e6 ? 4 : -1, text);
    fprintf(f, "<text x=\"%d\" y=\"%d\" fill=\"#1d2939\">%s, last %s</text>\n", x + 34, y, name, text);
}

/* A run with its reduced series. */
typedef struct drawn { point train[BUCKETS + 1], mean[BUCKETS + 1], val[BUCKETS + 1]; int n_train, n_val; } drawn;

static void draw_run(FILE *f, const drawn *r, const axis *x, const axis *y, const char *colour, const char *val_colour,
                     const char *val_style) {
    line(f, r->train, r->n_train, x, y, colour, "stroke-opacity=\"0.25\"");
    line(f, r->mean, r->n_train, x, y, colour, "stroke-width=\"2\"");
    line(f, r->val, r->n_val, x, y, val_colour, val_style);
    for (int i = 0; i < r->n_val; i++)
        if (on_axis(x, (double)r->val[i].step) && on_axis(y, r->val[i].value))
            fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", pixel(x, (double)r->val[i].step),
                    pixel(y, r->val[i].value), val_colour);
}

static void draw(FILE *f, const picture *p, drawn *runs) {
    const bool several = p->n > 1;
    const int title = *p->title ? 26 : 0, top = TOP + title + ROW * p->n, bottom = top + PLOT, height = bottom + BOTTOM;
    axis x = {p->log_x, INFINITY, -INFINITY, LEFT, WIDTH - RIGHT}, y = {p->log_y, INFINITY, -INFINITY, bottom, top};
    include(&x, 0);
    for (int i = 0; i < p->n; i++) {
        drawn *r = &runs[i];
        r->n_train = thin(&p->run[i].train, r->train);
        r->n_val = thin(&p->run[i].val, r->val);
        smooth(r->train, r->n_train, r->mean);
        for (int k = 0; k < r->n_train; k++) { include(&x, (double)r->train[k].step); include(&y, r->train[k].value); }
        for (int k = 0; k < r->n_val; k++) { include(&x, (double)r->val[k].step); include(&y, r->val[k].value); }
    }
    widen(&x, 0);
    widen(&y, 0.05);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" "
            "font-size=\"12\" fill=\"#475467\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, height, WIDTH, height);
    if (title) {
        fprintf(f, "<text x=\"%d\" y=\"26\" font-size=\"15\" fill=\"#101828\">", LEFT);
        escaped(f, p->title, 90);
        fprintf(f, "</text>\n");
    }
    axes(f, &x, &y, p->unit);
    for (int i = 0; i < p->n; i++) {
        const drawn *r = &runs[i];
        const char *colour = colours[i], *val_colour = colours[several ? i : 1],
                   *val_style = several ? "stroke-width=\"1.5\" stroke-dasharray=\"5 3\"" : "stroke-width=\"2\"";
        const int row = TOP + title + ROW * i;
        draw_run(f, r, &x, &y, colour, val_colour, val_style);
        if (r->n_train) legend(f, LEFT, row, colour, "stroke-width=\"2\"", "training", r->mean[r->n_train - 1].value);
        if (r->n_val) legend(f, LEFT + 180, row, val_colour, val_style, "validation", r->val[r->n_val - 1].value);
        if (several) {
            fprintf(f, "<text x=\"%d\" y=\"%d\" fill=\"#1d2939\">", LEFT + 370, row);
            escaped(f, p->run[i].name, 48);
            fprintf(f, "</text>\n");
        }
    }
    fprintf(f, "</svg>\n");
}

bool curve_write(const char *path, const picture *p) {
    char temporary[4096];
    drawn *runs = calloc((size_t)p->n, sizeof *runs);
    FILE *f = runs ? cr_os_create_beside(path, temporary, sizeof temporary) : NULL;
    bool written = f != NULL;
    if (f) {
        draw(f, p, runs);
        written = cr_os_commit(f, temporary, path);
    }
    if (!written) cli_fail("cannot write '%s': %s", path, runs ? cr_os_error() : "out of memory");
    free(runs);
    return written;
}
