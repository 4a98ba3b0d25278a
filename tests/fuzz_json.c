/* fuzz_json.c - the JSON reader on changed documents.  Whatever it accepts must come back unchanged
 * when it is written and read again. fuzz_json --check reads documents from standard input, each
 * behind a line with its length in bytes, and prints for each "refused" or the value in a fixed form:
 * tests/py/check_json.py compares that with Python's json. */
#define FUZZ_MAIN fuzz_main
#include "fuzz.h"

#include <math.h>

#include "io/file.h"
#include "io/json.h"

/* Numbers as integers or by their 17 digits, strings escaped, members in order. */
static void put(cr_out *o, const cr_json *v) {
    switch (v->kind) {
    case CR_JSON_NULL: cr_out_format(o, "null"); return;
    case CR_JSON_BOOL: cr_out_format(o, v->truth ? "true" : "false"); return;
    case CR_JSON_NUMBER:
        if (v->integral) cr_out_format(o, "%lld", (long long)v->integer);
        else cr_out_format(o, "%.17e", v->number);
        return;
    case CR_JSON_STRING: cr_out_string(o, v->text, v->bytes); return;
    default: break;
    }
    const bool object = v->kind == CR_JSON_OBJECT;
    int64_t n = 0;
    cr_out_put(o, object ? "{" : "[", 1);
    for (const cr_json *m = v->first; m; m = m->next, n++) {
        if (m != v->first) cr_out_put(o, ",", 1);
        if (object) { cr_out_string(o, m->key, m->key_bytes); cr_out_put(o, ":", 1); }
        put(o, m);
    }
    cr_out_put(o, object ? "}" : "]", 1);
    if (n != v->count) { printf("count %lld of %lld members\n", (long long)v->count, (long long)n); abort(); }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    cr_json *root = cr_json_parse("fuzz", "input", data, bytes);
    fuzz_check(root != NULL, "json");
    if (!root) return 0;
    cr_out first = {0}, second = {0};
    put(&first, root);
    cr_json *again = cr_json_parse("fuzz", "output", first.text, first.bytes);
    if (!again) { printf("refused what was written: %s\n", cr_error()); abort(); }
    put(&second, again);
    if (first.bytes != second.bytes || memcmp(first.text, second.text, first.bytes)) {
        printf("%s\nbecame\n%s\n", first.text, second.text);
        abort();
    }
    cr_out_free(&first);
    cr_out_free(&second);
    cr_json_free(again);
    cr_json_free(root);
    return 0;
}

static size_t fuzz_seed(int i, uint8_t *out, size_t room) {
    static const char *const seeds[] = {
        "{\"format\": \"chainrule-training\", \"version\": 1, \"step\": 2000, \"optimizer\": {\"steps\": 2000}, "
        "\"loader\": null}",
        "{\"__metadata__\":{\"k\":\"v\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}   ",
        "[0, -1, 12345678901234567890, -9223372036854775808, 1.5e-7, 3E+20, 0.1, true, false, null, \"\", {}, [], "
        "[[[[]]]]]",
        "\"\\u00e9\\ud83d\\ude00 \\\"quoted\\\" \\\\ \\/ \\b\\f\\n\\r\\t \xc3\xa9 \xf0\x9f\x98\x80\"",
        " \t\r\n{ \"a\" : { \"b\" : [ 1 , 2 , { \"c\" : -0.0 } ] } , \"d\" : 1e5 } \n"};
    if (i >= (int)(sizeof seeds / sizeof *seeds)) return 0;
    const size_t n = strlen(seeds[i]);
    if (n > room) return 0;
    memcpy(out, seeds[i], n);
    return n;
}

#ifndef CR_LIBFUZZER
static int check_stream(void) {
    static char data[1 << 20];
    for (size_t bytes; scanf("%zu", &bytes) == 1 && getchar() == '\n' && bytes <= sizeof data &&
                       fread(data, 1, bytes, stdin) == bytes;) {
        cr_json *root = cr_json_parse("check", "document", data, bytes);
        cr_out o = {0};
        if (root) put(&o, root);
        printf("%s\n", root ? o.text : "refused");
        cr_out_free(&o);
        cr_json_free(root);
        cr_error_clear();
    }
    return ferror(stdin) || !feof(stdin);
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--check")) return check_stream();
    return fuzz_main(argc, argv);
}
#endif
