/* status.h - how every layer reports a failure.  Messages read "[op] what is wrong: the values". */
#ifndef CR_STATUS_H
#define CR_STATUS_H

#include <chainrule.h>

/* Records "[op] message" for this thread, unless an earlier message is pending, and returns kind.
 * Functions that return pointers write  return cr_fail(...), NULL;  */
cr_status cr_fail(cr_status kind, const char *op, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Records that argument `what` is NULL, unless an earlier message is pending. */
cr_status cr_fail_null(const char *op, const char *what);

/* Records that memory ran out. */
cr_status cr_no_memory(const char *op);

/* If the handle is NULL, or was released (detected with CHAINRULE_CHECK, check.c): records that and returns true. */
bool cr_lacks(const char *op, const char *what, const void *object);
bool cr_lacks_tensor(const char *op, const char *what, const cr_tensor *t);
bool cr_stale(const char *op, const char *what, const void *object);       /* as cr_lacks, but NULL is allowed */
void cr_retire(void *object);                       /* free; with CHAINRULE_CHECK the object goes to quarantine */
extern bool cr_checking;                            /* CHAINRULE_CHECK is on */

/* A held reference belongs to an object that lends it (a parameter, a gradient): borrowers cannot release it. */
cr_tensor *cr_hold(const cr_tensor *t);             /* adds one, as cr_retain */
void       cr_unhold(const cr_tensor *t);           /* removes one, as cr_drop; NULL is allowed */

/* Saves and restores the pending failure around code that may fail itself, such as cleaning up. */
typedef struct cr_saved_error { cr_status status; char message[512]; } cr_saved_error;
void cr_error_take(cr_saved_error *e);
void cr_error_put(const cr_saved_error *e);

/* The modes of a thread in one struct: a small op reads several, and each look-up of the thread's memory takes 3 ns. */
typedef struct cr_thread_modes {
    bool anomaly;                                   /* cr_set_anomaly: an op that makes a NaN or an infinity fails */
    bool no_grad, auto_transfer;                    /* cr_set_grad_enabled, cr_auto_transfer */
    bool casting;                                   /* autocast.c: inputs are cast by the policy */
    unsigned recording;                             /* number of the recording that the thread makes (watch.h); 0:
                                                     * none */
    bool noting;                                    /* checkpoint.c: tensors of graphs that ops read are noted */
    bool no_bases;                                  /* backward.c: views join no base, nobody else sees them */
    bool packing;                                   /* cr_set_saved_hooks: hooks take what nodes save */
} cr_thread_modes;
extern _Thread_local cr_thread_modes cr_modes;

/* For long loops outside the thread pool: calls the function of cr_set_interrupt, at most every 20 ms, and fails if it
 * returns true. */
cr_status cr_check_interrupt(const char *op);

/* Checks an invariant of the library, never a user's mistake; only in debug builds. */
#ifdef CR_DEBUG
#define CR_ASSERT(x) ((x) ? (void)0 : cr_assert_failed(#x, __FILE__, __LINE__))
void cr_assert_failed(const char *what, const char *file, int line);
#else
#define CR_ASSERT(x) ((void)0)
#endif

#endif
