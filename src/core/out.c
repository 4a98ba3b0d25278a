/* writer.c - a text that grows. */
#include "writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void cr_writer_add(cr_writer *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = t->failed ? 0 : vsnprintf(t->s ? t->s + t->n : NULL, t->room - t->n, format, args);
    va_end(args);
    if (n >= 0 && t->n + (size_t)n >= t->room && !t->failed) {
        const size_t room = 2 * (t->n + (size_t)n) + 1000;
        char *s = realloc(t->s, room);
        if (s) t->s = s, t->room = room;
        t->failed = !s;
        va_start(args, format);
        if (s) vsnprintf(t->s + t->n, t->room - t->n, format, args);
        va_end(args);
    }
    if (n < 0) t->failed = true;
    if (!t->failed) t->n += (size_t)n;
}

void cr_writer_free(cr_writer *t) {
    free(t->s);
    *t = (cr_writer){0};
}
