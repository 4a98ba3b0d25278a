/* regex.c - see regex.h. */
#include "regex.h"

#include <chainrule.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/status.h"
#include "../io/file.h"
#include "splits.h"

/* The part of PCRE2's interface (pcre2.h, 8 bits a unit) that is used here, declared by us: its header is not needed.
 * */
enum {
    JIT_COMPLETE = 0x00000001,
    MULTILINE = 0x00000400,
    UCP = 0x00020000,
    UTF = 0x00080000,
    NEVER_BACKSLASH_C = 0x00100000,
    NO_UTF_CHECK = 0x40000000,
    NO_MATCH = -1
};
static struct {
    void *(*compile)(const char *pattern, size_t bytes, uint32_t options, int *error, size_t *at, void *context);
    void (*code_free)(void *code);
    int (*jit_compile)(void *code, uint32_t options);
    int (*match)(const void *code, const char *s, size_t n, size_t from, uint32_t options, void *data, void *context);
    int (*jit_match)(const void *code, const char *s, size_t n, size_t from, uint32_t options, void *data,
                     void *context);
    void *(*match_data_create)(uint32_t pairs, void *general);
    void (*match_data_free)(void *data);
    size_t *(*get_ovector_pointer)(void *data);
    void *(*match_context_create)(void *general);
    void (*match_context_free)(void *context);
    int (*set_match_limit)(void *context, uint32_t limit);
    void *(*jit_stack_create)(size_t start, size_t most, void *general);
    void (*jit_stack_free)(void *stack);
    void (*jit_stack_assign)(void *context, void *callback, void *stack);
    int (*get_error_message)(int error, char *out, size_t room);
} pcre2;

static const struct {
    const char *name;
    void *to;
} symbols[] = {
    {"pcre2_compile_8", &pcre2.compile},
    {"pcre2_code_free_8", &pcre2.code_free},
    {"pcre2_jit_compile_8", &pcre2.jit_compile},
    {"pcre2_match_8", &pcre2.match},
    {"pcre2_jit_match_8", &pcre2.jit_match},
    {"pcre2_match_data_create_8", &pcre2.match_data_create},
    {"pcre2_match_data_free_8", &pcre2.match_data_free},
    {"pcre2_get_ovector_pointer_8", &pcre2.get_ovector_pointer},
    {"pcre2_match_context_create_8", &pcre2.match_context_create},
    {"pcre2_match_context_free_8", &pcre2.match_context_free},
    {"pcre2_set_match_limit_8", &pcre2.set_match_limit},
    {"pcre2_jit_stack_create_8", &pcre2.jit_stack_create},
    {"pcre2_jit_stack_free_8", &pcre2.jit_stack_free},
    {"pcre2_jit_stack_assign_8", &pcre2.jit_stack_assign},
    {"pcre2_get_error_message_8", &pcre2.get_error_message},
};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };

#if defined(__APPLE__)
static const char *const names[] = {"libpcre2-8.0.dylib", "libpcre2-8.dylib", "/opt/homebrew/lib/libpcre2-8.dylib"};
#elif defined(_WIN32)
static const char *const names[] = {"pcre2-8.dll", "libpcre2-8-0.dll"};
#else
static const char *const names[] = {"libpcre2-8.so.0", "libpcre2-8.so"};
#endif

/* ---- opening ---- */
static const char *pcre2_setting(void) {
    const char *name, *value;
    for (int i = 0; cr_switch_at(i, &name, NULL, &value); i++)
        if (!strcmp(name, "CHAINRULE_PCRE2")) return value;
    return NULL;
}

static bool adopt_library(void *library) {
    for (int i = 0; i < SYMBOLS; i++) {
        void *p = cr_os_symbol(library, symbols[i].name);
        if (!p) return false;
        memcpy(symbols[i].to, &p, sizeof p);        /* C has no cast from an object pointer to a function */
    }
    return true;
}

/* Opens PCRE2 once that is possible; a failure is tried again by the next call. */
static bool open_library(const char *op, const char *path, const char *pattern, size_t bytes) {
    static volatile int lock;
    static atomic_bool open;
    const char *wish = pcre2_setting();
    if (atomic_load(&open)) return true;
    cr_word_lock(&lock);
    void *library = wish ? cr_os_open_library(wish) : NULL;
    for (size_t i = 0; !wish && !library && i < sizeof names / sizeof *names; i++)
        library = cr_os_open_library(names[i]);
    const bool fits = atomic_load(&open) || (library && adopt_library(library));
    atomic_store(&open, fits);
    cr_word_unlock(&lock);
    if (fits) return true;
    const int most = bytes < 40 ? (int)bytes : 40;
    if (library)
        cr_fail(CR_RUNTIME, op, "'%s' splits text by the regular expression '%.*s', and '%s' is not PCRE2", path,
                most, pattern, wish ? wish : names[0]);
    else
        cr_fail(CR_RUNTIME, op,
                "'%s' splits text by the regular expression '%.*s', and PCRE2 (%s) cannot be opened: install it "
                "(Debian: libpcre2-8-0), or set CHAINRULE_PCRE2 to its path",
                path, most, pattern, wish ? wish : names[0]);
    return false;
}

/* ---- expressions ---- */
enum { PATTERN_ROOM = 1 << 16, STACK_START = 1 << 15, STACK_MOST = 1 << 23, MATCH_LIMIT = 50000000 };

struct cr_regex { cr_splitter *split; void *code; bool jit; };                 /* split: NULL where PCRE2 has code */
struct cr_regex_room { void *data, *context, *stack; size_t *pair; };

bool cr_regex_is_script(const char *name) {
    char pattern[40];
    int error = 0;
    size_t at = 0;
    const int n = snprintf(pattern, sizeof pattern, "\\p{sc:%s}", name);
    if (n < 0 || n >= (int)sizeof pattern) return false;
    void *code = pcre2.compile(pattern, (size_t)n, UTF | UCP, &error, &at, NULL);
    if (code) pcre2.code_free(code);
    return code != NULL;
}

bool cr_regex_ascii(const char *pattern, size_t bytes, bool has[128]) {
    int error = 0;
    size_t at = 0;
    void *code = pcre2.compile(pattern, bytes, UTF | UCP | MULTILINE | NEVER_BACKSLASH_C, &error, &at, NULL);
    void *data = code ? pcre2.match_data_create(1, NULL) : NULL;
    for (int c = 0; data && c < 128; c++)
        has[c] = pcre2.match(code, &(char){(char)c}, 1, 0, NO_UTF_CHECK, data, NULL) > 0;
    if (data) pcre2.match_data_free(data);
    if (code) pcre2.code_free(code);
    return data != NULL;
}

cr_regex *cr_regex_new(const char *op, const char *path, const char *pattern, size_t bytes) {
    int error = 0;
    size_t at = 0;
    cr_out text = {0};
    cr_splitter *split = cr_splitter_new(pattern, bytes);
    if (split) {
        cr_regex *known = calloc(1, sizeof *known);
        if (known) known->split = split;
        else free(split), cr_no_memory(op);
        return known;
    }
    if (!open_library(op, path, pattern, bytes)) return NULL;
    if (bytes > PATTERN_ROOM)
        return cr_fail(CR_IO, op, "'%s': a regular expression of %zu bytes, more than %d", path, bytes, PATTERN_ROOM),
               NULL;
    cr_regex_translate(&text, pattern, bytes);
    if (text.bytes > CR_REGEX_MOST) {
        cr_out_free(&text);
        return cr_fail(CR_IO, op,
                       "'%s': a regular expression of %zu bytes has too many classes: written out, they take more than "
                       "%d bytes", path, bytes, CR_REGEX_MOST), NULL;
    }
    cr_regex *re = calloc(1, sizeof *re);
    if (re && !text.failed)
        re->code = pcre2.compile(text.text ? text.text : "", text.bytes, UTF | UCP | MULTILINE | NEVER_BACKSLASH_C,
                                 &error, &at, NULL);
    cr_out_free(&text);
    if (re && re->code) {
        re->jit = pcre2.jit_compile(re->code, JIT_COMPLETE) == 0;           /* else it is interpreted */
        return re;
    }
    char why[120] = "no memory";
    if (error) pcre2.get_error_message(error, why, sizeof why);
    if (error) cr_fail(CR_IO, op, "'%s': the regular expression '%.*s' is malformed: %s", path,
                       bytes < 80 ? (int)bytes : 80, pattern, why);
    else cr_fail(CR_NO_MEMORY, op, "no memory for a regular expression of '%s'", path);
    free(re);
    return NULL;
}

void cr_regex_free(cr_regex *re) {
    if (!re) return;
    if (re->code) pcre2.code_free(re->code);
    free(re->split);
    free(re);
}

bool cr_regex_needs_room(const cr_regex *re) { return !re->split; }

cr_regex_room *cr_regex_room_new(void) {
    cr_regex_room *r = pcre2.match ? calloc(1, sizeof *r) : NULL;
    if (!r) return NULL;
    r->data = pcre2.match_data_create(1, NULL);
    r->context = pcre2.match_context_create(NULL);
    r->stack = pcre2.jit_stack_create(STACK_START, STACK_MOST, NULL);       /* NULL: without the JIT */
    if (!r->data || !r->context) { cr_regex_room_free(r); return NULL; }
    pcre2.set_match_limit(r->context, MATCH_LIMIT);
    if (r->stack) pcre2.jit_stack_assign(r->context, NULL, r->stack);
    r->pair = pcre2.get_ovector_pointer(r->data);
    return r;
}

void cr_regex_room_free(cr_regex_room *r) {
    if (!r) return;
    if (r->stack) pcre2.jit_stack_free(r->stack);
    if (r->context) pcre2.match_context_free(r->context);
    if (r->data) pcre2.match_data_free(r->data);
    free(r);
}

int cr_regex_find(const cr_regex *re, cr_regex_room *room, const char *s, size_t n, size_t from, size_t *start,
                  size_t *end) {
    if (re->split) return cr_splitter_find(re->split, s, n, from, start, end);
    const int found = re->jit ? pcre2.jit_match(re->code, s, n, from, NO_UTF_CHECK, room->data, room->context)
                              : pcre2.match(re->code, s, n, from, NO_UTF_CHECK, room->data, room->context);
    if (found < 0) return found == NO_MATCH ? 0 : -1;
    *start = room->pair[0];
    *end = room->pair[1];
    /* \K may move the start beyond the end */
    return *start > *end || *start < from ? -1 : 1;
}
