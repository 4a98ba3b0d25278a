/* curve.c - the loss curve as an SVG picture: training and validation loss over steps, with axes and a legend. */
#include "cli.h"

#include <math.h>
#include <string.h>

#include "../core/os.h"

enum { WIDTH = 760, HEIGHT = 430, LEFT = 62, RIGHT = 22, TOP = 46, BOTTOM = 52, BUCKETS = 400 };

typedef struct axis { double low, high; int from, to; } axis;       /* from value to pixel */

static double place(const axis *a, double v) { return a->from + (v - a->low) / (a->high - a->low) * (a->to - a->from); }

/* 1, 2 or 5 times a power of ten, so that about n of them cover the span. */
static double nice_step(double span, int n) {
    const double raw = span / n, power = pow(10, floor(log10(raw))), m = raw / power;
    return (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10) * power;
}

/* The series as at most BUCKETS means, so that 100,000 steps make no larger file than 400. */
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

/* A running mean over a twentieth of the points, for the eye. */
static void smooth(const point *p, int n, point *out) {
    const int reach = n / 40;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        int k = 0;
        for (int j = i - reach; j <= i + reach; j++)
            if (j >= 0 && j < n && isfinite(p[j].value)) { sum += p[j].value; k++; }
        out[i] = (point){p[i].step, k ? sum / k : NAN};
    }
}

static void include(axis *y, const point *p, int n) {
    for (int i = 0; i < n; i++) {
        if (!isfinite(p[i].value)) continue;
        y->low = fmin(y->low, p[i].value);
        y->high = fmax(y->high, p[i].value);
    }
}

static void line(FILE *f, const point *p, int n, const axis *x, const axis *y, const char *style) {
    fprintf(f, "<polyline fill=\"none\" %s points=\"", style);
    for (int i = 0; i < n; i++)
        if (isfinite(p[i].value)) fprintf(f, "%.1f,%.1f ", place(x, (double)p[i].step), place(y, p[i].value));
    fprintf(f, "\"/>\n");
}

static void axes(FILE *f, const axis *x, const axis *y) {
    const double dx = nice_step(x->high - x->low, 8), dy = nice_step(y->high - y->low, 6);
    const int decimals = dy < 1 ? (int)ceil(-log10(dy) - 1e-9) : 0;
    for (double v = ceil(y->low / dy) * dy; v <= y->high + dy * 1e-9; v += dy) {
        fprintf(f, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e4e7ec\"/>\n", x->from, x->to, place(y, v), place(y, v));
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f</text>\n", x->from - 8, place(y, v) + 4, decimals, v);
    }
    for (double v = ceil(x->low / dx) * dx; v <= x->high + dx * 1e-9; v += dx) {
        fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#98a2b3\"/>\n", place(x, v), place(x, v), y->from, y->from + 5);
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.10g</text>\n", place(x, v), y->from + 19, v);
    }
    fprintf(f, "<polyline fill=\"none\" stroke=\"#98a2b3\" points=\"%d,%d %d,%d %d,%d\"/>\n", x->from, y->to, x->from, y->from, x->to, y->from);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n", (x->from + x->to) / 2, HEIGHT - 12);
    fprintf(f, "<text x=\"16\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 16 %d)\">loss, nats a token</text>\n",
            (y->from + y->to) / 2, (y->from + y->to) / 2);
}

static void legend(FILE *f, int row, const char *style, const char *name, double last) {
    const int x = WIDTH - RIGHT - 190, y = TOP + 16 + 20 * row;
    fprintf(f, "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" %s/>\n", x, x + 26, y - 4, y - 4, style);
    fprintf(f, "<text x=\"%d\" y=\"%d\" fill=\"#1d2939\">%s, last %.4f</text>\n", x + 34, y, name, last);
}

/* '&', '<' and '>' cannot stand in SVG's text. */
static void escaped(FILE *f, const char *s) {
    for (; *s; s++)
        if (*s == '&') fputs("&amp;", f);
        else if (*s == '<') fputs("&lt;", f);
        else if (*s == '>') fputs("&gt;", f);
        else fputc(*s, f);
}

static void draw(FILE *f, const char *title, const series *train, const series *val) {
    const char *raw_style = "stroke=\"#2e73d8\" stroke-opacity=\"0.3\"", *train_style = "stroke=\"#2e73d8\" stroke-width=\"2\"", *val_style = "stroke=\"#d9480f\" stroke-width=\"2\"";
    static const axis empty = {INFINITY, -INFINITY, HEIGHT - BOTTOM, TOP};
    point t[BUCKETS + 1], v[BUCKETS + 1], mean[BUCKETS + 1] = {{0, 0}};
    const int nt = thin(train, t), nv = thin(val, v);
    const double last = fmax(nt ? (double)train->at[train->n - 1].step : 0, nv ? (double)val->at[val->n - 1].step : 0);
    axis x = {0, last > 0 ? last : 1, LEFT, WIDTH - RIGHT}, y = empty;
    include(&y, t, nt);
    include(&y, v, nv);
    if (!(y.high >= y.low)) y.low = 0, y.high = 1;
    const double margin = y.high > y.low ? (y.high - y.low) * 0.05 : 0.5;
    y.low -= margin;
    y.high += margin;
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
               "font-size=\"12\" fill=\"#475467\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", WIDTH, HEIGHT, WIDTH, HEIGHT);
    fprintf(f, "<text x=\"%d\" y=\"26\" font-size=\"15\" fill=\"#101828\">", LEFT);
    escaped(f, title);
    fprintf(f, "</text>\n");
    axes(f, &x, &y);
    smooth(t, nt, mean);
    line(f, t, nt, &x, &y, raw_style);
    line(f, mean, nt, &x, &y, train_style);
    line(f, v, nv, &x, &y, val_style);
    for (int i = 0; i < nv; i++)
        if (isfinite(v[i].value)) fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#d9480f\"/>\n", place(&x, (double)v[i].step), place(&y, v[i].value));
    if (nt) legend(f, 0, train_style, "training", mean[nt - 1].value);
    if (nv) legend(f, 1, val_style, "validation", v[nv - 1].value);
    fprintf(f, "</svg>\n");
}

bool curve_write(const char *path, const char *title, const series *train, const series *val) {
    char temporary[4096];
    FILE *f = cr_os_create_beside(path, temporary, sizeof temporary);
    if (f) {
        draw(f, title, train, val);
        if (cr_os_commit(f, temporary, path)) return true;
    }
    cli_fail("cannot write '%s': %s", path, cr_os_error());
    return false;
}
