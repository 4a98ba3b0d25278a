/* out.c - see out.h. */
#include "out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(cr_out *o, size_t more) {
    if (o->failed) return false;
    if (o->room - o->bytes > more) return true;
    const size_t room = o->room + o->room / 2 + more + 256;
    char *text = room > more ? realloc(o->text, room) : NULL;
    if (!text) return !(o->failed = true);
    o->text = text;
    o->room = room;
    return true;
}

void cr_out_put(cr_out *o, const char *text, size_t bytes) {
    if (!reserve(o, bytes)) return;
    if (bytes) memcpy(o->text + o->bytes, text, bytes);     /* text may be NULL then */
    o->text[o->bytes += bytes] = 0;
}

void cr_out_vformat(cr_out *o, const char *format, va_list args) {
    va_list again;
    if (!reserve(o, 0)) return;
    va_copy(again, args);
    const int n = vsnprintf(o->text + o->bytes, o->room - o->bytes, format, args);
    if (n < 0) o->failed = true;
    else if ((size_t)n >= o->room - o->bytes && reserve(o, (size_t)n))
        vsnprintf(o->text + o->bytes, (size_t)n + 1, format, again);
    va_end(again);
    if (o->failed) o->text[o->bytes] = 0;           /* without the part that had room */
    else o->bytes += (size_t)n;
}

void cr_out_format(cr_out *o, const char *format, ...) {
    va_list args;
    va_start(args, format);
    cr_out_vformat(o, format, args);
    va_end(args);
}

void cr_out_free(cr_out *o) {
    free(o->text);
    *o = (cr_out){0};
}

bool cr_grow(void *array, int64_t need, int64_t *room, size_t size) {
    void *old, *grown;
    if (need <= *room) return true;
    const int64_t least = *room > INT64_MAX / 2 ? INT64_MAX : 2 * *room, wanted = need > least ? need : least;
    const int64_t more = wanted > 16 ? wanted : 16;
    memcpy(&old, array, sizeof old);
    if ((uint64_t)more > PTRDIFF_MAX / size || !(grown = realloc(old, (size_t)more * size))) return false;
    memcpy(array, &grown, sizeof grown);
    *room = more;
    return true;
}
