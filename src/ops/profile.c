/* profile.c - the profiler: every op between cr_profile_begin and cr_profile_end becomes an event
 * of a trace in Chrome's format (chrome://tracing, Perfetto).  What GPUs did is in lanes of their own
 * (dev/trace.h).  Memory is bounded: events beyond the limit are counted and dropped. */
#include "op.h"
#include "../dev/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 100000, OPERANDS = 5 };             /* 54 MB of address space, used as it fills; operands described:
                                                     * 4 inputs and the result */

typedef struct operand { cr_dtype dtype; int ndim; bool none; int64_t shape[CR_MAX_DIMS]; } operand;
typedef struct event {
    char name[64], source[64];
    const char *kind;
    const cr_device *dev;
    double start, end;                              /* seconds since the profile began */
    int64_t bytes;                                  /* of all operands */
    int thread, n_in;
    bool has_out;
    operand in[OPERANDS - 1], out;
} event;

atomic_bool cr_profiling;
static struct {
    event *events;
    double begun;
    atomic_int next, writers;                       /* next: counts dropped events too; writers: inside
                                                     * cr_profile_event */
    atomic_bool busy;                               /* a profile is being started, taken or written */
} profile;

static int this_thread(void) {
    static atomic_int threads;
    static _Thread_local int mine;
    if (!mine) mine = atomic_fetch_add(&threads, 1) + 1;
    return mine;
}

static int64_t describe(operand *o, const cr_tensor *t) {
    if (o) {
        *o = (operand){.dtype = t->dtype, .ndim = t->ndim, .none = t == CR_NONE};
        for (int i = 0; i < t->ndim; i++) o->shape[i] = t->shape[i];
    }
    return t == CR_NONE ? 0 : t->numel * (int64_t)cr_dtype_size(t->dtype);
}

/* As much of s as fits, in whole characters of UTF-8. */
static void copy_text(char *to, size_t room, const char *s) {
    size_t n = strlen(s);
    if (n >= room)
        for (n = room - 1; n && ((unsigned char)s[n] & 0xc0) == 0x80; ) n--;
    memcpy(to, s, n);
    to[n] = 0;
}

static void fill(event *e, double start, double end, const char *kind, const char *name, int n,
                 const cr_tensor *const *in, int n_out, const cr_tensor *const *out) {
    *e = (event){.kind = kind,
                 .start = start - profile.begun,
                 .end = end - profile.begun,
                 .thread = this_thread(),
                 .n_in = n,
                 .has_out = n_out > 0};
    const bool backward = !strcmp(kind, "backward");
    copy_text(e->name, sizeof e->name - sizeof " backward", name);
    if (backward) strcat(e->name, " backward");
    copy_text(e->source, sizeof e->source, cr_source_now());
    for (int i = 0; i < n; i++) e->bytes += describe(i < OPERANDS - 1 ? &e->in[i] : NULL, in[i]);
    for (int i = 0; i < n_out; i++) e->bytes += describe(i ? NULL : &e->out, out[i]);
    e->dev = n_out ? out[0]->dev : n ? in[0]->dev : NULL;
}

void cr_profile_event(double start, const char *kind, const char *name, int n, const cr_tensor *const *in, int n_out,
                      const cr_tensor *const *out) {
    const double end = cr_os_seconds();
    atomic_fetch_add(&profile.writers, 1);
    if (atomic_load(&cr_profiling) && start >= profile.begun) {
        const int at = atomic_load(&profile.next) < EVENTS ? atomic_fetch_add(&profile.next, 1) : EVENTS;
        if (at < EVENTS) fill(&profile.events[at], start, end, kind, name, n, in, n_out, out);
        else atomic_fetch_add(&profile.next, 1);
    }
    atomic_fetch_sub(&profile.writers, 1);
}

/* ---- the file */
static void put_string(FILE *f, const char *s) {
    fputc('"', f);
    for (; *s; s++) {
        if ((unsigned char)*s < 0x20) fprintf(f, "\\u%04x", (unsigned)*s);
        else fprintf(f, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    }
    fputc('"', f);
}

static void put_operand(FILE *f, const operand *o) {
    if (o->none) fputs("\"none\"", f);
    else fprintf(f, "\"%s %s\"", cr_dtype_name(o->dtype), cr_shape_text(o->ndim, o->shape).s);
}

/* Microseconds with three decimals, whatever the locale's decimal point is. */
static void put_time(FILE *f, const char *key, double seconds) {
    const long long ns = (long long)(seconds * 1e9);
    fprintf(f, ",\"%s\":%lld.%03lld", key, ns / 1000, ns % 1000);
}

static void put_event(FILE *f, const event *e) {
    fputs("{\"ph\":\"X\",\"name\":", f);
    put_string(f, e->name);
    fprintf(f, ",\"cat\":\"%s\",\"pid\":%lld,\"tid\":%d", e->kind, (long long)cr_os_process_id(), e->thread);
    put_time(f, "ts", e->start);
    put_time(f, "dur", e->end - e->start);
    fputs(",\"args\":{\"inputs\":[", f);
    for (int i = 0; i < e->n_in && i < OPERANDS - 1; i++) {
        if (i) fputc(',', f);
        put_operand(f, &e->in[i]);
    }
    fputc(']', f);
    if (e->n_in > OPERANDS - 1) fprintf(f, ",\"more inputs\":%d", e->n_in - (OPERANDS - 1));
    if (e->has_out) { fputs(",\"result\":", f); put_operand(f, &e->out); }
    fprintf(f, ",\"bytes\":%lld", (long long)e->bytes);
    if (e->dev) { fputs(",\"device\":", f); put_string(f, e->dev->name); }
    if (e->source[0]) { fputs(",\"source\":", f); put_string(f, e->source); }
    fputs("}}", f);
}

/* ---- lanes of GPUs: threads of the trace, behind those of the program */
enum { FIRST_LANE = 1 << 20, LANES = 64 };

static void put_lane(FILE *f, const cr_span *s, int lane) {
    fprintf(f, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%lld,\"tid\":%d,\"args\":{\"name\":\"%s %s\"}},\n",
            (long long)cr_os_process_id(), FIRST_LANE + lane, s->dev->name, s->lane);
}

static double not_negative(double seconds) { return seconds > 0 ? seconds : 0; }       /* two clocks meet in a span */

static void put_span(FILE *f, const cr_span *s, int lane) {
    fputs("{\"ph\":\"X\",\"name\":", f);
    put_string(f, s->name);
    fprintf(f, ",\"cat\":\"gpu\",\"pid\":%lld,\"tid\":%d", (long long)cr_os_process_id(), FIRST_LANE + lane);
    put_time(f, "ts", not_negative(s->start - profile.begun));
    put_time(f, "dur", not_negative(s->end - s->start));
    fputs(",\"args\":{\"op\":", f);
    put_string(f, s->op);
    fprintf(f, ",\"device\":\"%s\"}}", s->dev->name);
}

static void put_spans(FILE *f, const cr_spans *t, bool first) {
    const cr_span *lanes[LANES];                    /* the first span of each */
    int n = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const cr_span *s = &t->spans[i];
        int lane = 0;
        while (lane < n && (lanes[lane]->dev != s->dev || strcmp(lanes[lane]->lane, s->lane))) lane++;
        if (!first || i) fputs(",\n", f);
        if (lane == n) put_lane(f, lanes[n++] = s, lane);
        put_span(f, s, lane);
    }
}

static cr_status save(const char *path, int n, int dropped, const cr_spans *t) {
    char temporary[4096];
    FILE *f = cr_os_create_beside(path, temporary, sizeof temporary);
    if (!f) return cr_fail(CR_IO, "profile_end", "cannot create '%s': %s", path, cr_os_error());
    fprintf(f,
            "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"chainrule\":\"%s\",\"dropped events\":%d,\"most "
            "events\":%d,\"dropped spans of GPUs\":%lld},\n\"traceEvents\":[",
            cr_version(), dropped, EVENTS, (long long)t->dropped);
    for (int i = 0; i < n; i++) {
        fputs(i ? ",\n" : "\n", f);
        put_event(f, &profile.events[i]);
    }
    put_spans(f, t, !n);
    fputs("\n]}\n", f);
    if (ferror(f)) {
        cr_os_abandon(f, temporary);
        return cr_fail(CR_IO, "profile_end", "cannot write '%s'", path);
    }
    return cr_os_commit(f, temporary, path)
               ? CR_OK
               : cr_fail(CR_IO, "profile_end", "cannot write '%s': %s", path, cr_os_error());
}

cr_status cr_profile_begin(void) {
    if (atomic_exchange(&profile.busy, true))
        return cr_fail(CR_RUNTIME, "profile_begin", "a profile is being taken already");
    profile.events = malloc(sizeof *profile.events * EVENTS);
    if (!profile.events) {
        atomic_store(&profile.busy, false);
        return cr_fail(CR_NO_MEMORY, "profile_begin", "out of memory for %d events", EVENTS);
    }
    atomic_store(&profile.next, 0);
    profile.begun = cr_os_seconds();
    cr_trace_begin();
    atomic_store(&cr_profiling, true);
    return CR_OK;
}

cr_status cr_profile_end(const char *path) {
    if (!path) return cr_fail_null("profile_end", "the path");
    if (!atomic_exchange(&cr_profiling, false)) return cr_fail(CR_RUNTIME, "profile_end", "no profile is being taken");
    /* a writer fills its event, or sees that the profile has ended */
    while (atomic_load(&profile.writers)) cr_os_relax();
    const int all = atomic_load(&profile.next), n = all < EVENTS ? all : EVENTS;
    cr_spans t;
    const cr_status traced = cr_trace_end(&t);
    cr_status status = save(path, n, all - n, &t);
    if (status == CR_OK) status = traced;
    free(t.spans);
    free(profile.events);
    profile.events = NULL;
    atomic_store(&profile.busy, false);
    return status;
}
