/* scan.h - shared by the scans: parameters, and neighbours along the axis. */
#ifndef CR_SCAN_H
#define CR_SCAN_H

#include "compose.h"

typedef struct cr_scan_params { int axis; bool reverse; } cr_scan_params;

/* x's shape; integers and bool give i64 */
cr_status  cr_scan_infer(const cr_call *c, cr_meta *out, cr_meta aux[]);
/* index: of CR_SCAN_MAX and MIN, else NULL */
cr_status  cr_run_scan(const cr_call *c, cr_scan_kind kind, cr_tensor *out, cr_tensor *index);
/* the public functions' way: checks x and the axis */
cr_tensor *cr_scan_over(const cr_op *op, const cr_tensor *x, int axis);
/* y[k] = x[k] + a[k] y[k - 1] along the axis; reverse, its transpose: y[k] = x[k] + a[k + 1] y[k + 1] */
cr_tensor *cr_recurrence(const cr_tensor *x, const cr_tensor *a, int axis, bool reverse);
/* The neighbour before each element: y[k - 1], and `first`, of size 1 along the axis, for k = 0. */
cr_tensor *cr_before(const cr_tensor *y, const cr_tensor *first, int axis);

#endif
