/* writer.h - a text that grows: of kernels, and of descriptions. */
#ifndef CR_WRITER_H
#define CR_WRITER_H

#include <stdbool.h>
#include <stddef.h>

/* s: free(); failed: out of memory */
typedef struct cr_writer { char *s; size_t n, room; bool failed; } cr_writer;
void cr_writer_add(cr_writer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cr_writer_free(cr_writer *t);

#endif
