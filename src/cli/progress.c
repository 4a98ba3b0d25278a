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

/* How much of the run is over, 0 to 1: by steps or by time, whichever is further. */
static double share_done(const progress *p) {
    const double steps = p->total ? (double)p->step / (double)p->total : 0;
    return fmin(fmax(steps, p->limit > 0 ? p->spent / p->limit : 0), 1);
}

void progress_begin(progress *p, int64_t first, int64_t total, double limit) {
    *p = (progress){.step = first, .first = first, .total = total, .limit = limit, .loss = NAN, .val = NAN,
                    .started = cr_os_seconds(), .terminal = cr_os_is_terminal(stdout)};
    p->shown = p->started - 1;
}

/* Until the steps or the time are over, as far as this process can tell from its own steps. */
static double seconds_left(const progress *p) {
    const double done = (double)(p->step - p->first), elapsed = cr_os_seconds() - p->started;
    double left = p->limit > 0 ? p->limit - p->spent : INFINITY;
    if (p->total && done > 0) left = fmin(left, elapsed / done * (double)(p->total - p->step));
    return isfinite(left) ? left : 0;
}

/* "loss 2.1034  val 2.2311  12,345 tokens/s  0:42 left"; short of room it goes without the last parts. */
static void figures(const progress *p, int parts, char out[160]) {
    char rate[32], left[32];
    count_text(p->rate, rate);
    duration_text(seconds_left(p), left);
    int n = snprintf(out, 160, "loss %.4f", p->loss);
    if (!isnan(p->val)) n += snprintf(out + n, 160 - (size_t)n, "  val %.4f", p->val);
    if (parts > 1) n += snprintf(out + n, 160 - (size_t)n, "  %s tokens/s", rate);
    if (parts > 0) snprintf(out + n, 160 - (size_t)n, "  %s left", left);
}

enum { LEAST_BAR = 5, MOST_BAR = 40 };

static void draw_bar(const progress *p) {
    char text[160], count[64], bar[MOST_BAR + 1];
    const int columns = cr_os_terminal_width(stdout);
    int at = snprintf(count, sizeof count, "%6lld", (long long)p->step), width = 0;
    if (p->total) at = snprintf(count, sizeof count, "%6lld/%lld", (long long)p->step, (long long)p->total);
    for (int parts = 2; parts >= 0 && width < LEAST_BAR; parts--) {
        figures(p, parts, text);
        width = columns - at - (int)strlen(text) - 5;       /* " [" and "] ", and the last column */
    }
    if (width > MOST_BAR) width = MOST_BAR;
    if (width < LEAST_BAR) {
        char line[240];
        snprintf(line, sizeof line, "%s  %s", count, text);
        printf("\r\033[K%.*s", columns > 1 ? columns - 1 : 1, line);
        return;
    }
    const int filled = (int)((double)width * share_done(p));
    for (int i = 0; i < width; i++) bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[width] = 0;
    printf("\r\033[K%s [%s] %s", count, bar, text);
}

static void print_line(const progress *p) {
    char text[160];
    figures(p, 2, text);
    if (p->total) printf("step %lld/%lld  %s\n", (long long)p->step, (long long)p->total, text);
    else printf("step %lld  %s\n", (long long)p->step, text);
}

void progress_show(progress *p, bool force) {
    const double now = cr_os_seconds();
    const int twentieth = (int)(20 * share_done(p));
    if (p->terminal && !force && now - p->shown < 0.1) return;
    if (!p->terminal && !force && twentieth == p->twentieth) return;
    if (p->terminal) draw_bar(p);
    else print_line(p);
    p->twentieth = twentieth;
    p->shown = now;
    fflush(stdout);
}

void progress_end(progress *p) {
    if (p->terminal) printf("\n");
    fflush(stdout);
}
