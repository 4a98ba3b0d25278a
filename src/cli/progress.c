/* progress.c - the progress of a run: one line that redraws itself on a terminal, a plain line from
 * time to time elsewhere. */
#include "cli.h"

#include <math.h>
#include <string.h>

#include "../core/os.h"

void duration_text(double seconds, char out[32]) {
    const long long s = seconds > 0 && seconds < 1e12 ? (long long)(seconds + 0.5) : 0;
    if (s >= 3600) snprintf(out, 32, "%lld:%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
    else snprintf(out, 32, "%d:%02d", (int)(s / 60), (int)(s % 60));
}

void count_text(double n, char out[32]) {
    char digits[24];
    snprintf(digits, sizeof digits, "%.0f", n > 0 && n < 1e15 ? n : 0);
    const size_t len = strlen(digits);
    size_t k = 0;
    for (size_t i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0) out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = 0;
}

void progress_begin(progress *p, int64_t first, int64_t total) {
    *p = (progress){.step = first, .first = first, .total = total, .loss = NAN, .val = NAN, .started = cr_os_seconds(),
                    .terminal = cr_os_is_terminal(stdout), .every = total / 20 > 0 ? total / 20 : 1};
    p->shown = p->started - 1;
}

static void figures(const progress *p, char *out, size_t room) {
    char rate[32], left[32], val[32] = "";
    const double done = (double)(p->step - p->first), elapsed = cr_os_seconds() - p->started;
    count_text(p->rate, rate);
    duration_text(done > 0 ? elapsed / done * (double)(p->total - p->step) : 0, left);
    if (!isnan(p->val)) snprintf(val, sizeof val, "  val %.4f", p->val);
    snprintf(out, room, "loss %.4f%s  %s tokens/s  %s left", p->loss, val, rate, left);
}

static void draw_bar(const progress *p) {
    char text[160], bar[64];
    figures(p, text, sizeof text);
    const int columns = cr_os_terminal_width(stdout), room = columns - (int)strlen(text) - 30;
    const int width = room > 40 ? 40 : room;
    const int filled = p->total ? (int)((double)width * (double)p->step / (double)p->total) : width;
    int n = 0;
    for (; n < width && n < 40; n++) bar[n] = n < filled ? '=' : n == filled ? '>' : ' ';
    bar[n] = 0;
    if (width >= 5) printf("\r\033[K%6lld/%lld [%s] %s", (long long)p->step, (long long)p->total, bar, text);
    else printf("\r\033[K%.*s", columns > 1 ? columns - 1 : 1, text);
}

void progress_show(progress *p, bool force) {
    const double now = cr_os_seconds();
    if (p->terminal) {
        if (!force && now - p->shown < 0.1) return;
        draw_bar(p);
    } else {
        if (!force && p->step % p->every) return;
        char text[160];
        figures(p, text, sizeof text);
        printf("step %lld/%lld  %s\n", (long long)p->step, (long long)p->total, text);
    }
    p->shown = now;
    fflush(stdout);
}

void progress_end(progress *p) {
    if (p->terminal) printf("\n");
    fflush(stdout);
}
