/* status.h - how every layer reports a failure.  Messages read "[op] what is wrong: the values". */
#ifndef CR_STATUS_H
#define CR_STATUS_H

#include <chainrule.h>

/* Records "[op] message" for this thread unless an earlier message waits, and returns kind.
 * Functions that return pointers write  return cr_fail(...), NULL;  */
cr_status cr_fail(cr_status kind, const char *op, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* For a NULL argument: an earlier failure keeps its message; without one says that argument `what` is NULL. */
cr_status cr_fail_null(const char *op, const char *what);

/* For a handle that is NULL, or was released before (noticed while CHAINRULE_CHECK is on, check.c): fails and returns true. */
bool cr_lacks(const char *op, const char *what, const void *object);
bool cr_lacks_tensor(const char *op, const char *what, const cr_tensor *t);
bool cr_stale(const char *op, const char *what, const void *object);       /* as cr_lacks, but NULL is fine */
void cr_retire(void *object);                       /* free, in place of which the object waits while CHAINRULE_CHECK is on */
extern bool cr_checking;

/* A reference that an object keeps and lends (a parameter, a gradient), so that whoever borrows it cannot release it. */
cr_tensor *cr_hold(const cr_tensor *t);             /* a new one, as cr_retain */
void       cr_unhold(const cr_tensor *t);           /* gives it back, as cr_drop; NULL is fine */

/* The pending failure moved aside and back, for code that must run in between (cleaning up, taking things down). */
typedef struct cr_saved_error { cr_status status; char message[512]; } cr_saved_error;
void cr_error_take(cr_saved_error *e);
void cr_error_put(const cr_saved_error *e);

extern _Thread_local bool cr_anomaly;              /* cr_set_anomaly: a NaN or an infinity is a failure of what made it */

/* For long loops outside the thread pool: asks whoever set cr_set_interrupt, at most every 20 ms, and fails when the answer is yes. */
cr_status cr_check_interrupt(const char *op);

/* Broken invariants of our own (never a user's mistake): checked in debug builds only. */
#ifdef CR_DEBUG
#define CR_ASSERT(x) ((x) ? (void)0 : cr_assert_failed(#x, __FILE__, __LINE__))
void cr_assert_failed(const char *what, const char *file, int line);
#else
#define CR_ASSERT(x) ((void)0)
#endif

#endif
