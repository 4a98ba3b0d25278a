/* out.h - texts and arrays that grow. */
#ifndef CR_OUT_H
#define CR_OUT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* text: NULL, or ends with a 0 that `bytes` does not count; free().  failed: out of memory, nothing more is added */
typedef struct cr_out { char *text; size_t bytes, room; bool failed; } cr_out;
void cr_out_put(cr_out *o, const char *text, size_t bytes);
void cr_out_format(cr_out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cr_out_vformat(cr_out *o, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
void cr_out_free(cr_out *o);

/* array: the address of a pointer to elements of `size` bytes, of which there is room for *room.  Makes room for
 * `need`, and at least for twice as many as before.  False: out of memory, nothing has changed. */
bool cr_grow(void *array, int64_t need, int64_t *room, size_t size);

#endif
