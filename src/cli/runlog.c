/* runlog.c - run.jsonl: one JSON object a line, written as the run goes; a resumed run reads back what it keeps. */
#include "cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"

bool series_add(series *s, int64_t step, double value) {
    if (s->n == s->room) {
        const int64_t room = s->room ? 2 * s->room : 1024;
        point *grown = realloc(s->at, (size_t)room * sizeof *grown);
        if (!grown) return false;
        s->at = grown;
        s->room = room;
    }
    s->at[s->n++] = (point){step, value};
    return true;
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

/* The number after "key": in one line of ours; false when it is absent or null. */
static bool field(const char *line, const char *key, double *v) {
    char pattern[32];
    snprintf(pattern, sizeof pattern, "\"%s\":", key);
    const char *at = strstr(line, pattern);
    if (!at) return false;
    char *end;
    at += strlen(pattern);
    *v = strtod(at, &end);
    return end != at;
}

/* Copies the lines up to from_step to `to` and into the series; lines of the interrupted end are dropped. */
static void keep_lines(runlog *log, const char *path, int64_t from_step, FILE *to) {
    cr_mapping m;
    if (!cr_os_map(path, &m)) return;
    char line[8192];
    for (size_t i = 0; i < m.bytes;) {
        const unsigned char *newline = memchr(m.data + i, '\n', m.bytes - i);
        const size_t n = newline ? (size_t)(newline - m.data) - i : m.bytes - i;
        double step = 0, v;
        if (newline && n < sizeof line) {
            memcpy(line, m.data + i, n);
            line[n] = 0;
            field(line, "step", &step);
            if ((int64_t)step <= from_step) {
                fprintf(to, "%s\n", line);
                if (field(line, "val_loss", &v)) series_add(&log->val, (int64_t)step, v);
                else if (field(line, "loss", &v)) series_add(&log->train, (int64_t)step, v);
            }
        }
        i += n + 1;
    }
    cr_os_unmap(&m);
}

bool runlog_open(runlog *log, const char *path, int64_t from_step) {
    char temporary[4096];
    *log = (runlog){0};
    FILE *f = cr_os_create_beside(path, temporary, sizeof temporary);
    if (!f) return cli_fail("cannot write '%s': %s", path, cr_os_error()), false;
    if (from_step > 0) keep_lines(log, path, from_step, f);
    if (!cr_os_commit(f, temporary, path)) return cli_fail("cannot write '%s': %s", path, cr_os_error()), false;
    log->file = fopen(path, "ab");
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
        log->failed = true;                         /* the run is worth more than its log: said once, then it goes on */
        cli_fail("run.jsonl could not be written: the disk may be full; training goes on");
    }
}

void runlog_close(runlog *log) {
    if (log->file) fclose(log->file);
    free(log->train.at);
    free(log->val.at);
    *log = (runlog){0};
}
