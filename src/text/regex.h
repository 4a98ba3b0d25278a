/* regex.h - regular expressions over UTF-8.  Those of known tokenizers run in splits.c, others in PCRE2 with its JIT
 * compiler and the properties of Unicode.  PCRE2 is opened at run time: libpcre2-8.so.0, or the file in
 * CHAINRULE_PCRE2. */
#ifndef CR_REGEX_H
#define CR_REGEX_H

#include <stddef.h>

#include "../io/file.h"

typedef struct cr_regex cr_regex;
typedef struct cr_regex_room cr_regex_room;         /* memory of one thread for matching, with any expression */

enum { CR_REGEX_MOST = 1 << 22 };                   /* bytes of a translated expression */
/* oniguruma.c: an expression of a tokenizer.json in PCRE2's syntax */
void cr_regex_translate(cr_out *o, const char *s, size_t n);
bool cr_regex_is_script(const char *name);          /* does PCRE2 know \p{sc:name}? */
/* Which ASCII characters an expression of one character matches; false: it is malformed. */
bool cr_regex_ascii(const char *pattern, size_t bytes, bool has[128]);
/* The expression in the syntax of Hugging Face's tokenizers (Oniguruma).  path: of the file that has it,
 * for messages.  NULL: a message says that the expression is malformed, or that PCRE2 is not installed. */
cr_regex      *cr_regex_new(const char *op, const char *path, const char *pattern, size_t bytes);
void           cr_regex_free(cr_regex *re);
bool           cr_regex_needs_room(const cr_regex *re);                                /* PCRE2 runs it */
cr_regex_room *cr_regex_room_new(void);             /* NULL without a message: no memory, or no PCRE2 */
void           cr_regex_room_free(cr_regex_room *room);
/* The first match that starts at `from` or later.  s: valid UTF-8.  room: NULL where the expression needs none.
 * 1: found; 0: none; -1: beyond PCRE2's limits of time or memory.  Sets no message, so any thread may call it. */
int cr_regex_find(const cr_regex *re, cr_regex_room *room, const char *s, size_t n, size_t from, size_t *start,
                  size_t *end);

#endif
