/* schedule.c - the learning rate as a function of only the step, so that a resumed run needs no state for it.
 *
 * CR_CONSTANT   lr CR_COSINE     min_lr + (lr - min_lr) (1 + cos(pi r)) / 2,  r = (step - warmup) /
 * (total - warmup); min_lr from total on
 *               both after a linear warm-up lr (step + 1) / (warmup + 1) for steps below warmup
 *               (nanoGPT's train.py) CR_ONE_CYCLE  torch.optim.lr_scheduler.OneCycleLR(max_lr=lr,
 *               total_steps=total) with its cosine: from lr / 25 up to lr, then down to
 *               min_lr.  warmup: the step count of the rise, pct_start * total in torch's words; 0:
 *               torch's 0.3.  min_lr 0: torch's
 *               lr / 25 / 1e4.  Steps at and beyond total - 1 give min_lr. */
#include <chainrule.h>

#include <math.h>

#include "../core/status.h"
#include "../dev/elementary.h"

static const double PI = 3.14159265358979323846;

/* from `a` to `b` along half a cosine, r in [0, 1] */
static double cosine(double a, double b, double r) { return b + (a - b) * (1 + cr_f64_cos(PI * r)) / 2; }

static cr_status check_schedule(const cr_schedule *s, int64_t step) {
    static const char op[] = "schedule_lr";
    if (!s) return cr_fail_null(op, "the schedule");
    if (s->kind != CR_CONSTANT && s->kind != CR_COSINE && s->kind != CR_ONE_CYCLE)
        return cr_fail(CR_BAD_VALUE, op, "kind must be CR_CONSTANT, CR_COSINE or CR_ONE_CYCLE, not %d", (int)s->kind);
    if (!(s->lr >= 0) || !isfinite(s->lr))
        return cr_fail(CR_BAD_VALUE, op, "lr must be finite and at least 0, not %g", s->lr);
    if (!(s->min_lr >= 0) || !isfinite(s->min_lr))
        return cr_fail(CR_BAD_VALUE, op, "min_lr must be finite and at least 0, not %g", s->min_lr);
    if (s->warmup < 0) return cr_fail(CR_BAD_VALUE, op, "warmup must be at least 0, not %lld", (long long)s->warmup);
    if (step < 0) return cr_fail(CR_BAD_INDEX, op, "step must be at least 0, not %lld", (long long)step);
    if (s->kind != CR_CONSTANT && s->total <= s->warmup)
        return cr_fail(CR_BAD_VALUE, op, "total must be above warmup: total %lld, warmup %lld", (long long)s->total,
                       (long long)s->warmup);
    return CR_OK;
}

static double one_cycle(const cr_schedule *s, double step) {
    const double start = s->lr / 25, end = s->min_lr > 0 ? s->min_lr : start / 1e4;
    /* steps where the phases end */
    const double top = (s->warmup ? (double)s->warmup : 0.3 * (double)s->total) - 1, last = (double)s->total - 1;
    if (step >= last) return end;
    if (step < top) return cosine(start, s->lr, step / top);
    return cosine(s->lr, end, (step - top) / (last - top));
}

double cr_schedule_lr(const cr_schedule *s, int64_t step) {
    if (check_schedule(s, step)) return NAN;
    if (s->kind == CR_ONE_CYCLE) return one_cycle(s, (double)step);
    if (step < s->warmup) return s->lr * ((double)step + 1) / ((double)s->warmup + 1);
    if (s->kind == CR_CONSTANT) return s->lr;
    if (step >= s->total) return s->min_lr;
    return cosine(s->lr, s->min_lr, (double)(step - s->warmup) / (double)(s->total - s->warmup));
}
