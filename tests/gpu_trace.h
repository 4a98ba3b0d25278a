/* gpu_trace.h - the lanes of a GPU in the profiler's file: a span for each kernel, in order, within the profile, and
 * not before the host asked for it. */
#ifndef GPU_TRACE_H
#define GPU_TRACE_H

#include "folder.h"
#include "io/json.h"
#include "test.h"

/* SLACK, microseconds: the host may notice late when the GPU's clock has its base */
enum { TRACE_MOST = 4000, SLACK = 300000 };
typedef struct traced { double start, end; char op[32], name[48]; } traced;
/* the spans of a lane, and the events of the host */
typedef struct traces { int lane, n, host; traced of[TRACE_MOST], by[TRACE_MOST]; double start, end; } traces;

static const char *trace_text(const cr_json *e, const char *key) {
    const cr_json *t = e ? cr_json_get(e, key) : NULL;
    return t && t->kind == CR_JSON_STRING ? t->text : "";
}
static double trace_number(const cr_json *e, const char *key) {
    const cr_json *t = cr_json_get(e, key);
    return t && t->kind == CR_JSON_NUMBER ? t->number : NAN;
}
static traced trace_event(const cr_json *e) {
    traced t = {.start = trace_number(e, "ts")};
    t.end = t.start + trace_number(e, "dur");
    snprintf(t.op, sizeof t.op, "%s", trace_text(cr_json_get(e, "args"), "op"));
    snprintf(t.name, sizeof t.name, "%s", trace_text(e, "name"));
    return t;
}

/* The lane of this title in a file; its number is -1 where it is not there. */
static void trace_read(traces *t, const char *path, const char *title) {
    char *text = file_get(path, NULL);
    cr_json *root = cr_json_parse("test", path, text, strlen(text));
    t->lane = -1, t->n = t->host = 0;
    CHECK(root, "%s", cr_error());
    const cr_json *first = root ? cr_json_get(root, "traceEvents") : NULL;
    for (const cr_json *e = first ? first->first : NULL; e; e = e->next)
        if (!strcmp(trace_text(cr_json_get(e, "args"), "name"), title)) t->lane = (int)trace_number(e, "tid");
    for (const cr_json *e = first ? first->first : NULL; e; e = e->next) {
        const bool on_gpu = !strcmp(trace_text(e, "cat"), "gpu");
        if (strcmp(trace_text(e, "ph"), "X") || t->n == TRACE_MOST || t->host == TRACE_MOST) continue;
        if (!on_gpu) t->by[t->host++] = trace_event(e);
        else if ((int)trace_number(e, "tid") == t->lane) t->of[t->n++] = trace_event(e);
    }
    cr_json_free(root);
    free(text);
}

/* A product, a softmax and a sum in a profile, twice, and a profile of nothing; kernels: launched so far. */
__attribute__((unused)) static void check_trace(const cr_device *dev, int64_t (*kernels)(void)) {
    static traces t;
    char title[60];
    const char *path = folder_path("gpu.json");
    snprintf(title, sizeof title, "%s kernels", cr_device_name(dev));
    for (int round = 0; round < 3; round++) {
        cr_scope_begin();
        cr_tensor *x = cr_ones(CR_LIST(67, 130), CR_F32, dev);
        OK(cr_synchronize(dev));
        cr_tensor *before = cr_add(x, x);           /* recorded, or in the queue, before the profile begins */
        const double start = cr_os_seconds();
        OK(cr_profile_begin());
        const int64_t n = kernels();
        if (round < 2) {
            const double sum = cr_item(cr_sum(cr_softmax(cr_matmul(x, cr_transpose(x, 0, 1)), 1), CR_ALL, false));
            CHECK(fabs(sum - 67) < 1e-3, "%s: %g in a profile: %s", cr_device_name(dev), sum, cr_error());
        }
        const int64_t ran = kernels() - n;
        OK(cr_profile_end(path));
        const double whole = 1e6 * (cr_os_seconds() - start);
        trace_read(&t, path, title);
        CHECK(t.n == ran && (t.lane >= 0) == (ran > 0), "%s: %d spans of %lld kernels", title, t.n, (long long)ran);
        double last = 0, busy = 0, softmax = NAN;
        for (int i = 0; i < t.host; i++) if (!strcmp(t.by[i].name, "softmax")) softmax = t.by[i].start;
        for (int i = 0; i < t.n; i++) {
            const traced *s = &t.of[i];
            CHECK(s->start >= last - 1 && s->end >= s->start && s->end <= whole + SLACK,
                  "%s: '%s' from %.3f to %.3f us, after %.3f, in a profile of %.3f us", title, s->name, s->start,
                  s->end, last, whole);
            if (!strcmp(s->op, "softmax"))
                CHECK(s->start >= softmax - SLACK, "softmax runs at %.3f us, asked for at %.3f", s->start, softmax);
            last = s->end, busy += s->end - s->start;
        }
        CHECK(!t.n || busy > 0, "%s: no time was measured", title);
        int softmaxes = 0, products = 0;
        for (int i = 0; i < t.n; i++) {
            softmaxes += !strcmp(t.of[i].op, "softmax");
            products += !strcmp(t.of[i].op, "matmul");
        }
        CHECK(round == 2 || (softmaxes == 1 && products >= 1), "%s: %d softmaxes, %d products", title, softmaxes,
              products);
        CHECK(cr_item(cr_sum(before, CR_ALL, false)) == 2 * 67 * 130, "%s", cr_error());
        cr_scope_end();
        test_ran_on(dev);
    }
}

#endif
