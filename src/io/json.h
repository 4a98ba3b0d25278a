/* json.h - a strict reader of JSON (RFC 8259): the whole text becomes a small tree in one arena.
 * Refused: anything after the value, duplicate keys, invalid UTF-8, lone surrogates, control
 * characters in strings, numbers beyond a double, nesting deeper than CR_JSON_DEPTH, and a tree
 * of more than 256 MB and eight times the bytes of the text.  And writers of values into text that grows. */
#ifndef CR_JSON_H
#define CR_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../core/out.h"

enum { CR_JSON_DEPTH = 128 };
typedef enum cr_json_kind {
    CR_JSON_NULL,
    CR_JSON_BOOL,
    CR_JSON_NUMBER,
    CR_JSON_STRING,
    CR_JSON_ARRAY,
    CR_JSON_OBJECT
} cr_json_kind;

typedef struct cr_json {
    cr_json_kind kind;
    bool truth;                                     /* of a bool */
    bool integral;                                  /* a number without fraction and exponent that fits `integer` */
    double number; int64_t integer;
    const char *text; size_t bytes;                 /* a string in UTF-8; may hold NULs, ends with one more */
    const char *key; size_t key_bytes;              /* of a member of an object */
    int64_t count; struct cr_json *first, *next;    /* elements or members, in order */
} cr_json;

/* path: for messages */
cr_json       *cr_json_parse(const char *op, const char *path, const void *text, size_t bytes);
/* for a text whose arrays are short: one of more elements is refused when they have been read */
cr_json       *cr_json_parse_short(const char *op, const char *path, const void *text, size_t bytes, int64_t most);
void           cr_json_free(cr_json *root);
void           cr_put_json(cr_out *o, const cr_json *v);               /* the value as text, on one line */
/* a string, quoted and escaped; text is UTF-8 */
void           cr_out_string(cr_out *o, const char *text, size_t bytes);
const cr_json *cr_json_get(const cr_json *object, const char *key);    /* NULL: no such member, or not an object */
const cr_json *cr_json_as(const cr_json *v, cr_json_kind kind);        /* NULL: absent, or of another kind */
const cr_json *cr_json_text(const cr_json *object, const char *key);   /* a string; NULL: no such member */
const cr_json *cr_json_elements(const cr_json *v);                     /* the first; NULL: none, or not an array */
bool           cr_json_is(const cr_json *v, const char *text);         /* this string */
bool           cr_json_flag(const cr_json *object, const char *key, bool otherwise);

#endif
