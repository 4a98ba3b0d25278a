/* jinja.h - chat templates: the part of Jinja that they use, as transformers sets it up (trim_blocks, lstrip_blocks,
 * loop controls, an immutable sandbox).  A template reaches nothing but the values that it is given.
 *
 * Everything lives in an arena, so an error leaves by longjmp and nothing is lost.  Files: jinja_parse.c (text to
 * nodes), jinja_value.c (values: order, arithmetic, containers), jinja_text.c, jinja_method.c, jinja_filter.c (what
 * expressions call), jinja.c (nodes to text, and the public functions). */
#ifndef CR_JINJA_H
#define CR_JINJA_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <chainrule.h>
#include "../io/json.h"

enum {
    J_DEPTH = 160,                                  /* of nested expressions, statements and macros */
    J_RANGE_MOST = 100000,                          /* numbers of range(), as in Jinja's sandbox */
    J_HASHED = 8                                    /* a dict with more entries has a hash table */
};
#define J_MEMORY ((size_t)1 << 30)                  /* bytes of an arena */

/* ---- values, as in Python */
typedef struct jtext { size_t bytes, length; bool markup; char s[]; } jtext;   /* length: code points */

typedef enum jkind {
    J_MISSING,                                      /* an argument that is not given */
    J_UNDEFINED, J_NONE, J_BOOL, J_INT, J_FLOAT, J_TEXT,
    J_LIST, J_TUPLE, J_RANGE, J_KEYS, J_VALUES, J_ITEMS, J_ITERATOR,           /* a jlist */
    J_DICT, J_NAMESPACE,                            /* a jdict */
    J_LOOP, J_MACRO, J_METHOD, J_FUNCTION
} jkind;

typedef struct jvalue {
    jkind kind;
    union {
        bool truth;
        int64_t i;
        double d;
        const jtext *text;
        const char *why;                            /* undefined: the message of an error that uses it */
        struct jlist *list;
        struct jdict *dict;
        struct jloop *loop;
        struct jmacro *macro;
        struct jbound *bound;
        int function;                               /* jinja.c */
    };
} jvalue;

typedef struct jlist {
    jvalue *at; int64_t n, room;
    bool used_up; const char *why;                  /* of an iterator; why: the error of whoever goes through it */
} jlist;
typedef struct jentry { jvalue key, value; } jentry;
typedef struct jdict { jentry *at; int64_t n, room; uint32_t *slots; int64_t n_slots; } jdict;
typedef struct jbound { jvalue self; const struct jmethod *method; } jbound;
typedef struct jnamed { const jtext *name; jvalue value; } jnamed;
typedef struct jargs { int n, n_named; jvalue *at; jnamed *named; } jargs;
typedef struct jout { char *s; size_t bytes, room; } jout;

/* ---- the syntax tree */
typedef enum jnode_kind {
    N_CONST, N_NAME, N_LIST, N_TUPLE, N_DICT,       /* dict: kids are keys and values in turn */
    N_UNARY, N_BINARY, N_COMPARE,                   /* op; compare: a is the first operand, kids are N_BINARY with b */
    N_AND, N_OR, N_NOT, N_COND,                     /* cond: a if b else c (may be NULL) */
    N_CONCAT, N_ATTRIBUTE, N_ITEM, N_SLICE, N_CALL,
    N_FILTER, N_TEST, N_ARGUMENT, N_PROPERTY,       /* filter of a block: a is NULL; property: text.name */
    N_DATA, N_PRINT, N_FOR, N_IF, N_SET, N_SET_BLOCK, N_MACRO, N_CALL_BLOCK, N_FILTER_BLOCK, N_WITH, N_BREAK,
    N_CONTINUE, N_GENERATION
} jnode_kind;

/* A frame is what has names of its own: the template, a macro, a loop, a block.  As in Jinja, a name that its own
 * statements set before they read it, and that no frame around it mentions, is undefined in frames inside until it is
 * set, whatever the template is given under that name. */
typedef struct jframe {
    struct jframe *up, *next;                       /* next: the frame that was read before */
    struct jmention { const jtext *name; bool starts_undefined; } *at;
    int64_t n, room;
} jframe;

typedef struct jnodes { struct jnode **at; int n, room; } jnodes;
typedef struct jnode {
    jnode_kind kind;
    int line;
    int op;                                         /* an operator's characters; of an argument: '*' or 'p' (**) */
    bool recursive, varargs, kwargs, caller;        /* of a loop; names that a macro's body reads */
    const jtext *text, *name;
    jvalue value;
    struct jnode *a, *b, *c;
    jnodes kids, parameters, orelse;
    const jframe *frame, *orelse_frame;             /* of the kids, of orelse */
} jnode;

typedef struct jscope { struct jscope *up; jnamed *at; int n, room; } jscope;
typedef struct jmacro { const jnode *node; jscope *scope; } jmacro;
typedef struct jloop {
    const jnode *node;
    jscope *scope;
    const jlist *items;
    int64_t index;                                  /* from 0 */
    int depth;                                      /* from 0 */
    jvalue changed;
} jloop;

/* ---- what runs.  An error leaves its message here and jumps to `failed`. */
typedef struct jinja {
    struct jchunk *chunks;
    size_t taken;
    jmp_buf failed;
    char message[440];                              /* of the error */
    int line, depth;
    jscope *globals;
    const jout *root;                               /* where the template's own text goes */
    int64_t *marks, n_marks, marks_room;            /* starts and ends of {% generation %}: bytes of the root's text */
} jinja;

_Noreturn void cr_j_fail(jinja *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
void   *cr_j_take(jinja *j, size_t bytes);             /* zeros */
void   *cr_j_grow(jinja *j, const void *old, int64_t n, int64_t *room, size_t size);
void    cr_j_free(jinja *j);

jnodes  cr_j_parse(jinja *j, const char *source, size_t bytes, const jframe **frame);

/* values */
jtext  *cr_j_text(jinja *j, const char *s, size_t bytes);
jvalue  cr_j_of_text(jinja *j, const char *s, size_t bytes);
jvalue  cr_j_undefined(jinja *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
void    cr_j_put(jinja *j, jout *o, const char *s, size_t bytes);
jvalue  cr_j_out(jinja *j, const jout *o);
const char *cr_j_type(jvalue v);                       /* Python's name of its class */
void    cr_j_put_value(jinja *j, jout *o, jvalue v);   /* str(v) */
void    cr_j_put_repr(jinja *j, jout *o, jvalue v);
const jtext *cr_j_str(jinja *j, jvalue v);
bool    cr_j_true(jvalue v);
bool    cr_j_equal(jinja *j, jvalue a, jvalue b);
int     cr_j_compare(jinja *j, const char *sign, jvalue a, jvalue b);             /* below 0, 0, above 0 */
bool    cr_j_contains(jinja *j, jvalue in, jvalue v);
jvalue  cr_j_binary(jinja *j, int op, jvalue a, jvalue b);
jvalue  cr_j_number(int64_t i);
jvalue  cr_j_truth(bool b);
int64_t cr_j_index(jinja *j, jvalue v, const char *what);                         /* an int or bool; else an error */
jvalue  cr_j_new_list(jinja *j, jkind kind, int64_t room);
void    cr_j_append(jinja *j, jlist *l, jvalue v);
const jlist *cr_j_items(jinja *j, jvalue v);           /* what iterating gives; uses an iterator up */
jvalue  cr_j_new_dict(jinja *j, jkind kind);
void    cr_j_set(jinja *j, jdict *d, jvalue key, jvalue value);
jvalue *cr_j_find(jinja *j, const jdict *d, jvalue key);
jvalue  cr_j_of_json(jinja *j, const cr_json *v);
jvalue  cr_j_slice(jinja *j, jvalue v, jvalue from, jvalue to, jvalue step);
size_t  cr_j_code(const char *s, size_t n, uint32_t *code);                       /* bytes of the code point at s */
bool    cr_j_space(uint32_t c);                        /* str.isspace() */
size_t  cr_j_offset(const jtext *t, int64_t i);        /* of code point i, in bytes */
jvalue  cr_j_modulo(jinja *j, const jtext *format, jvalue values);                /* the % of texts */

/* ---- texts: as the methods of str */
jvalue  cr_j_lower(jinja *j, const jtext *t);
jvalue  cr_j_with_case(jinja *j, const jtext *t, const char *what, bool first, char others, const char *starts);
jvalue  cr_j_strip(jinja *j, const jtext *t, jvalue chars, bool left, bool right);
jvalue  cr_j_split(jinja *j, const jtext *t, jvalue separator, int64_t most, bool last);
jvalue  cr_j_replace(jinja *j, const jtext *t, const jtext *old, const jtext *with, int64_t most);
jvalue  cr_j_lines(jinja *j, const jtext *t, bool keep);
jvalue  cr_j_pad(jinja *j, const jtext *t, int64_t width, const char *fill, char where);
jvalue  cr_j_join(jinja *j, const jtext *with, const jlist *l, bool any);         /* any: also what is no text */
jvalue  cr_j_format(jinja *j, const jtext *t, const jargs *a);
bool    cr_j_is(const jtext *t, const char *s);
bool    cr_j_here(const jtext *t, size_t at, const jtext *s);
size_t  cr_j_where(const jtext *t, size_t from, size_t to, const jtext *s, bool last);
void    cr_j_append_text(jinja *j, jlist *l, const char *s, size_t bytes);
const jtext *cr_j_ascii(jinja *j, const jtext *t, const char *what);
bool    cr_j_has_case(jinja *j, const jtext *t, char which);       /* str.isupper() 'u', str.islower() 'l' */
bool    cr_j_digit(char c);
bool    cr_j_upper(char c);
bool    cr_j_small(char c);
bool    cr_j_word(char c);                             /* a letter or a digit */
char    cr_j_lowered(char c);

/* ---- calls */
/* names: the parameters, the required ones before '|'; slots: their values, J_MISSING where none is given */
void    cr_j_bind(jinja *j, const char *what, const jargs *a, const char *names, jvalue *slots);
int64_t cr_j_int_or(jinja *j, jvalue v, int64_t missing_value, const char *what);
const jtext *cr_j_text_of(jinja *j, jvalue v, const char *what);
jvalue  cr_j_get_item(jinja *j, jvalue of, jvalue key);            /* of[key], else the attribute of that name */
jvalue  cr_j_get_attribute(jinja *j, jvalue of, const jtext *name);               /* of.name, else of["name"] */
jvalue  cr_j_by_path(jinja *j, jvalue of, jvalue path, jvalue otherwise);         /* "a.b.0", as filters take it */
jvalue  cr_j_entries(jinja *j, const jdict *d, jkind kind);        /* keys, values or pairs */
jvalue  cr_j_method(jinja *j, const jbound *b, const jargs *a);
jvalue  cr_j_filter(jinja *j, const jtext *name, jvalue v, const jargs *a);
bool    cr_j_test(jinja *j, const jtext *name, jvalue v, const jargs *a);
jvalue  cr_j_call(jinja *j, jvalue f, const jargs *a);

/* ---- with the members of n objects as variables; later ones come first */
char   *cr_template_render_json(const cr_template *t, int n, const cr_json *const variables[], cr_marks *marks);

#endif
