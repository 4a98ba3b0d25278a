/* runlog.c - run.jsonl: one JSON object a line, written during the run; a resumed run reads the lines that it keeps. */
#include "cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/out.h"
#include "../core/status.h"
#include "../io/json.h"

bool series_add(series *s, int64_t step, double value) {
    if (!cr_grow(&s->at, s->n + 1, &s->room, sizeof *s->at)) return false;
    s->at[s->n++] = (point){step, value};
    return true;
}

const char *series_text(const series *s, int64_t n, char out[64]) {
    double sum = 0;
    if (n > s->n) n = s->n;
    for (int64_t i = s->n - n; i < s->n; i++) sum += s->at[i].value;
    if (n == 1) snprintf(out, 64, "%.4f (one step)", sum);
    else snprintf(out, 64, "%.4f (mean of the last %lld steps)", n ? sum / (double)n : NAN, (long long)n);
    return out;
}

void json_escape(const char *s, char *out, size_t room) {
    size_t n = 0;
    for (; *s && n + 7 < room; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') { out[n++] = '\\'; out[n++] = (char)c; }
        else if (c < 0x20) n += (size_t)snprintf(out + n, room - n, "\\u%04x", c);
        else out[n++] = (char)c;
    }
    out[n] = 0;
}

const char *json_number(double v, char out[32]) {
    if (isfinite(v)) snprintf(out, 32, "%.9g", v);
    else snprintf(out, 32, "null");
    return out;
}

/* A number of the line, NaN for null; *there: does the line have it?  False: it is not a number. */
static bool number_of(const cr_json *line, const char *key, const char *where, double *v, bool *there) {
    const cr_json *member = cr_json_get(line, key);
    *there = member;
    *v = member && member->kind == CR_JSON_NUMBER ? member->number : NAN;
    if (!member || member->kind == CR_JSON_NUMBER || member->kind == CR_JSON_NULL) return true;
    return cr_fail(CR_IO, "run log", "%s: \"%s\" is not a number", where, key), false;
}

typedef struct row { double step, loss, val; bool has_step, has_loss, has_val; } row;

static bool read_row(const char *where, const char *text, size_t n, row *r) {
    cr_json *line = cr_json_parse("run log", where, text, n);
    if (!line) return false;
    bool good = number_of(line, "step", where, &r->step, &r->has_step) &&
                number_of(line, "loss", where, &r->loss, &r->has_loss) &&
                number_of(line, "val_loss", where, &r->val, &r->has_val);
    const char *wrong = line->kind != CR_JSON_OBJECT                               ? "is not a JSON object"
                        : (r->has_loss || r->has_val) && !(fabs(r->step) < 0x1p53) ? "has a loss without a step"
                                                                                   : NULL;
    cr_json_free(line);
    return good && (!wrong || (cr_fail(CR_IO, "run log", "%s %s", where, wrong), false));
}

bool runlog_read(const char *path, int64_t until, FILE *copy, series *train, series *val) {
    cr_mapping m;
    if (!cr_os_map(path, &m)) return cr_fail(CR_IO, "run log", "cannot read '%s': %s", path, cr_os_error()), false;
    bool good = true;
    size_t n;
    for (int64_t i = 0, number = 1; (size_t)i < m.bytes && good; i += (int64_t)n + 1, number++) {
        const char *text = (const char *)m.data + i, *newline = memchr(text, '\n', m.bytes - (size_t)i);
        n = newline ? (size_t)(newline - text) : m.bytes - (size_t)i;
        char where[4200];
        snprintf(where, sizeof where, "%s line %lld", path, (long long)number);
        row r = {0};
        if (!n || (!newline && copy)) continue;     /* skips an incomplete last line of a killed run */
        good = read_row(where, text, n, &r);
        const bool wanted = good && (!r.has_step || r.step <= (double)until);
        if (wanted && copy) fprintf(copy, "%.*s\n", (int)n, text);
        if (wanted && ((r.has_loss && !series_add(train, (int64_t)r.step, r.loss)) ||
                       (r.has_val && !series_add(val, (int64_t)r.step, r.val))))
            good = cr_fail(CR_NO_MEMORY, "run log", "out of memory for '%s'", path) == CR_OK;
        if (copy && !good) { cr_error_clear(); good = true; }
    }
    cr_os_unmap(&m);
    return good;
}

bool runlog_open(runlog *log, const char *path, int64_t from_step) {
    char temporary[4096];
    *log = (runlog){0};
    FILE *f = cr_os_create_beside(path, temporary, sizeof temporary);
    if (!f) return cli_fail("cannot write '%s': %s", path, cr_os_error()), false;
    /* a missing log is not fatal */
    if (from_step > 0 && !runlog_read(path, from_step, f, &log->train, &log->val)) cr_error_clear();
    if (!cr_os_commit(f, temporary, path)) return cli_fail("cannot write '%s': %s", path, cr_os_error()), false;
    log->file = cr_os_open_file(path, "ab");
    if (!log->file) return cli_fail("cannot append to '%s'", path), false;
    return true;
}

void runlog_write(runlog *log, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(log->file, format, args);
    va_end(args);
    fputc('\n', log->file);
    if ((fflush(log->file) || ferror(log->file)) && !log->failed) {
        log->failed = true;                         /* reported once; the run continues without a log */
        cli_fail("run.jsonl could not be written: the disk may be full; training goes on");
    }
}

void runlog_close(runlog *log) {
    if (log->file) fclose(log->file);
    free(log->train.at);
    free(log->val.at);
    *log = (runlog){0};
}
