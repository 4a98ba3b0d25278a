/* test_io.c - JSON, safetensors and checkpoints: what goes out comes back, what is broken is refused
 * with its reason, what is interrupted leaves the old files. */
#define _GNU_SOURCE
#include <stdarg.h>

#include "test.h"
#include "posix.h"
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "core/os.h"
#include "folder.h"
#include "io/gguf.h"
#include "io/file.h"
#include "io/json.h"

/* ---- the system calls between: each open and each fsync of the library comes through here */
static void (*on_open)(void);
static void (*on_fsync)(int fd);

#ifdef __linux__
int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    const int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    if (on_open) on_open();
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    const int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    if (on_open && !(flags & O_PATH)) on_open();
    return (int)syscall(SYS_openat, at, path, flags, mode);
}

int fsync(int fd) {
    if (on_fsync) on_fsync(fd);
    return (int)syscall(SYS_fsync, fd);
}
#define SEES_CALLS() (void)0
#else
#define SEES_CALLS() SKIP("no system call can be seen here")
#endif

/* ---- JSON.  tests/py/check_json.py compares with Python's reader, fuzz_json.c changes documents at random */
TEST(json_values) {
    static const char text[] =
        " {\"a\": [1, -2.5e3, 9223372036854775807, 9223372036854775808, -9223372036854775808, 1e-400],\n"
        "\"\\u00e9\\ud83d\\ude00\\n\": \"x\\u0000y\", \"t\": true, \"f\": false, \"n\": null, \"o\": {}} ";
    cr_json *root = cr_json_parse("test", "text", text, sizeof text - 1);
    REQUIRE(root, "%s", cr_error());
    const cr_json *a = cr_json_get(root, "a"), *s = cr_json_get(root, "\xc3\xa9\xf0\x9f\x98\x80\n");
    CHECK(root->kind == CR_JSON_OBJECT && root->count == 6 && a && a->kind == CR_JSON_ARRAY && a->count == 6,
          "structure");
    const struct { bool integral; int64_t integer; double number;
    } want[] = {{true, 1, 1},       {false, 0, -2500},          {true, INT64_MAX, 0x1p63},
                {false, 0, 0x1p63}, {true, INT64_MIN, -0x1p63}, {false, 0, 0}};
    const cr_json *v = a->first;
    for (int i = 0; i < 6; i++, v = v->next)
        CHECK(v->kind == CR_JSON_NUMBER && v->integral == want[i].integral && v->number == want[i].number &&
                  (!v->integral || v->integer == want[i].integer),
              "number %d: %d %lld %.17g", i, v->integral, (long long)v->integer, v->number);
    CHECK(s && s->kind == CR_JSON_STRING && s->bytes == 3 && !memcmp(s->text, "x\0y", 4), "string");
    CHECK(cr_json_get(root, "t")->truth && !cr_json_get(root, "f")->truth &&
              cr_json_get(root, "n")->kind == CR_JSON_NULL,
          "words");
    CHECK(!cr_json_get(root, "b") && !cr_json_get(root, "ab") && !cr_json_get(a, "a") && !cr_json_get(NULL, "a"),
          "absent members");
    cr_json_free(root);
}

TEST(json_refused) {
    const struct { const char *text, *message;
    } bad[] = {{"", "at byte 0: expected a value"},
               {"{\"a\": 1,}", "at byte 8: expected a string"},
               {"[1,]", "at byte 3: expected a value"},
               {"[1 2]", "at byte 3: expected ',' or ']'"},
               {"{\"a\" 1}", "at byte 5: expected ':'"},
               {"[1] x", "at byte 4: something follows the value"},
               {"{\"a\": 1, \"b\": 2, \"\\u0061\": 3}", "a key appears twice"},
               {"01", "something follows"},
               {"1.", "digits after the point"},
               {"1e+", "digits of an exponent"},
               {"-", "expected a value"},
               {"nul", "expected a value"},
               {"\"a\nb\"", "a control character"},
               {"\"\\q\"", "unknown escape"},
               {"\"\\u12g4\"", "four hexadecimal digits"},
               {"\"\\ud800\"", "half of a surrogate pair"},
               {"\"\\udc00\"", "half of a surrogate pair"},
               {"\"\xff\"", "invalid UTF-8"},
               {"\"abc", "a string without end"},
               {"1e999", "beyond the range of a double"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(CR_IO, bad[i].message, cr_json_parse("test", "text", bad[i].text, strlen(bad[i].text)));
    char deep[2 * CR_JSON_DEPTH + 2];
    memset(deep, '[', CR_JSON_DEPTH + 1);
    memset(deep + CR_JSON_DEPTH + 1, ']', CR_JSON_DEPTH + 1);
    FAILS(CR_IO, "nested too deeply", cr_json_parse("test", "text", deep, sizeof deep));
    cr_json *root = cr_json_parse("test", "text", deep + 1, sizeof deep - 2);
    CHECK(root, "depth %d: %s", CR_JSON_DEPTH, cr_error());
    cr_json_free(root);
}

/* ---- safetensors */
static cr_params *every_dtype(void) {
    cr_params *p = cr_params_new();
    char name[32];
    cr_scope_begin();
    for (int dt = 0; dt < CR_DTYPES; dt++) {
        snprintf(name, sizeof name, "%s.\"\xc3\xa9\"\n", cr_dtype_name((cr_dtype)dt));
        cr_tensor *t = cr_to(cr_arange(0, 15, 1, CR_F64, cr_cpu()), (cr_dtype)dt, cr_cpu());
        OK(cr_params_add(p, name, cr_transpose(cr_reshape(t, CR_LIST(3, 5)), 0, 1)));      /* strided: (5, 3) */
    }
    OK(cr_params_add(p, "scalar", cr_full(CR_ALL, -2.5, CR_F64, cr_cpu())));
    OK(cr_params_add(p, "empty", cr_zeros(CR_LIST(0, 7), CR_F16, cr_cpu())));
    OK(cr_params_add(p, "ref", cr_full(CR_LIST(3), 0.1, CR_BF16, cr_ref())));
    cr_scope_end();
    return p;
}

static void check_same(const cr_params *a, const cr_params *b, const cr_device *dev) {
    REQUIRE(cr_params_count(a) == cr_params_count(b), "%lld tensors became %lld", (long long)cr_params_count(a),
            (long long)cr_params_count(b));
    for (int64_t i = 0; i < cr_params_count(a); i++) {
        const cr_tensor *x = cr_params_at(a, i), *y = cr_params_at(b, i);
        CHECK(!strcmp(cr_params_name(a, i), cr_params_name(b, i)), "'%s' became '%s'", cr_params_name(a, i),
              cr_params_name(b, i));
        REQUIRE(cr_dtype_of(x) == cr_dtype_of(y) && cr_ndim(x) == cr_ndim(y) && cr_numel(x) == cr_numel(y) &&
                    cr_device_of(y) == dev,
                "'%s' became another tensor", cr_params_name(a, i));
        for (int d = 0; d < cr_ndim(x); d++)
            CHECK(cr_size(x, d) == cr_size(y, d), "'%s': axis %d", cr_params_name(a, i), d);
        unsigned char u[200], v[200];
        const size_t bytes = (size_t)cr_numel(x) * cr_dtype_size(cr_dtype_of(x));
        OK(cr_read(x, cr_dtype_of(x), u, bytes));
        OK(cr_read(y, cr_dtype_of(y), v, bytes));
        CHECK(!memcmp(u, v, bytes), "'%s' has other bits", cr_params_name(a, i));
        test_ran_on(dev);
    }
}

TEST(safetensors_round_trip) {
    const char *path = folder_path("all.safetensors");
    cr_params *p = every_dtype();
    OK(cr_save(path, p, "{\"format\": \"pt\", \"\\u00e9\": \"two\\nlines \\\"quoted\\\"\", \"empty\": \"\"}"));
    for (int d = 0; cr_device_at(d); d++) {
        cr_params *q = cr_load(path, cr_device_at(d));
        REQUIRE(q, "%s", cr_error());
        check_same(p, q, cr_device_at(d));
        cr_params_free(q);
    }
    char *value = cr_load_metadata(path, "\xc3\xa9");
    CHECK(value && !strcmp(value, "two\nlines \"quoted\""), "metadata '%s'", value ? value : "(none)");
    cr_free(value);
    value = cr_load_metadata(path, "empty");
    CHECK(value && !*value, "metadata");
    cr_free(value);
    CHECK(!cr_load_metadata(path, "absent") && !cr_error(), "a key that is not there: %s", cr_error());
    value = cr_load_metadata(path, NULL);
    CHECK(value && !strcmp(value, "{\"format\":\"pt\",\"\xc3\xa9\":\"two\\u000alines \\\"quoted\\\"\",\"empty\":\"\"}"),
          "metadata %s", value ? value : "(none)");
    cr_free(value);
    size_t bytes;
    char *file = file_get(path, &bytes);
    CHECK((unsigned char)file[0] % 64 == 56, "the data starts at %d, not at a multiple of 64",
          8 + (unsigned char)file[0]);
    free(file);
    cr_params_free(p);
}

/* How many mappings of files with this name the process has. */
static int mappings_of(const char *name) {
    char line[1024];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) n += strstr(line, name) != NULL;
    if (maps) fclose(maps);
    return n;
}

TEST(safetensors_mapped_is_writable) {              /* and the file keeps what it has; so do other loads, and tensors
                                                     * outlive the set */
    const char *path = folder_path("w.safetensors");
    cr_params *p = cr_params_new();
    cr_scope_begin();
    OK(cr_params_add(p, "w", cr_ones(CR_LIST(1000, 7), CR_F32, cr_cpu())));
    OK(cr_save(path, p, NULL));
    cr_params *q = cr_load(path, cr_cpu()), *r = cr_load(path, cr_cpu());
    cr_tensor *w = cr_retain(cr_params_get(q, "w"));
    cr_params_free(q);
    CHECK(cr_fill_(w, 3) != NULL, "%s", cr_error());
    CHECK(cr_item(cr_sum(w, CR_ALL, false)) == 21000, "written");
    CHECK(cr_item(cr_sum(cr_params_get(r, "w"), CR_ALL, false)) == 7000, "another load sees it");
    OK(cr_save(path, r, NULL));                     /* over the file that is mapped */
    CHECK(cr_item(cr_sum(cr_params_get(r, "w"), CR_ALL, false)) == 7000, "after saving over it");
    ON_POSIX(CHECK(mappings_of("/w.safetensors") == 2, "%d mappings of two sets", mappings_of("/w.safetensors"));)
    cr_release(w);
    cr_params_free(r);
    CHECK(mappings_of("/w.safetensors") == 0, "%d mappings stay", mappings_of("/w.safetensors"));
    cr_params_free(p);
    cr_scope_end();
}

static void put_safetensors(const char *path, const char *header, size_t said, const void *data, size_t bytes) {
    char file[4096] = {0};
    const size_t n = strlen(header);
    for (int i = 0; i < 8; i++) file[i] = (char)(said >> 8 * i);
    memcpy(file + 8, header, n);
    if (bytes) memcpy(file + 8 + n, data, bytes);
    file_put(path, file, 8 + n + bytes);
}

TEST(safetensors_misaligned) {                      /* legal: the data may start anywhere */
    const char *path = folder_path("odd.safetensors"),
               *header = "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"w\":{\"dtype\":\"F32\","
                         "\"shape\":[2],\"data_offsets\":[1,9]}}";
    put_safetensors(path, header, strlen(header), "\x07\0\0\x80\x3f\0\0\0\xc0", 9);
    cr_params *p = cr_load(path, cr_cpu());
    REQUIRE(p, "%s", cr_error());
    float w[2];
    OK(cr_read(cr_params_get(p, "w"), CR_F32, w, sizeof w));
    CHECK(w[0] == 1 && w[1] == -2, "%g %g", (double)w[0], (double)w[1]);
    cr_params_free(p);
}

TEST(safetensors_refused) {
    const char *path = folder_path("bad.safetensors");
#define ONE(dtype, shape, offsets) "{\"w\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    const struct { const char *header; size_t bytes; const char *message;
    } bad[] = {{ONE("F32", "[2]", "[0,8]"), 7, "'w' ends at byte 8 of the data, which is 7 bytes long"},
               {ONE("F32", "[2]", "[0,8]"), 9, "the tensors end at byte 8 of 9"},
               {ONE("F32", "[2]", "[1,9]"), 9, "'w' starts at byte 1"},
               {ONE("F32", "[3]", "[0,8]"), 8, "'w' has 8 bytes of data, its shape and dtype take 12"},
               {ONE("F32", "[1]", "[0,8]"), 8, "'w' has 8 bytes of data, its shape and dtype take 4"},
               {ONE("F8_E4M3", "[8]", "[0,8]"), 8, "dtype \"F8_E4M3\""},
               {ONE("f32", "[2]", "[0,8]"), 8, "dtype \"f32\""},
               {ONE("F32", "[-2]", "[0,8]"), 8, "integers of at least 0"},
               {ONE("F32", "[2.0]", "[0,8]"), 8, "integers of at least 0"},
               {ONE("F32", "[\"2\"]", "[0,8]"), 8, "integers of at least 0"},
               {ONE("F32", "2", "[0,8]"), 8, "no \"shape\""},
               {ONE("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8, "9 axes, the most are 8"},
               {ONE("F32", "[4611686018427387904,4]", "[0,8]"), 8, "more elements than"},
               {ONE("F32", "[2]", "[8,0]"), 8, "0 <= begin <= end"},
               {ONE("F32", "[2]", "[0,8,9]"), 8, "0 <= begin <= end"},
               {ONE("F32", "[2]", "[0,1e1]"), 8, "0 <= begin <= end"},
               {ONE("F32", "[2]", "[0,9223372036854775807]"), 8, "ends at byte 9223372036854775807"},
               {ONE("F32", "[2]", "[-8,0]"), 8, "0 <= begin <= end"},
               {ONE("BOOL", "[2]", "[0,2]"), 2, "has the byte 88 at 0: a bool is 0 or 1"},
               {"{\"w\":[]}", 0, "not described by an object"},
               {"{\"\":{}}", 0, "empty or holds a NUL"},
               {"{\"a\\u0000b\":{}}", 0, "empty or holds a NUL"},
               {"{\"w\":{}}", 0, "no \"dtype\""},
               {"{\"__metadata__\":[]}", 0, "is not an object"},
               {"{\"__metadata__\":{\"a\":1}}", 0, "'a', which is not a string"},
               {"{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"v\":{\"dtype\":\"U8\",\"shape\":[1],"
                "\"data_offsets\":[0,1]}}",
                1, "starts at byte 0 of the data, the tensor before it ends at 1"},
               {"{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"v\":{\"dtype\":\"U8\",\"shape\":[1],"
                "\"data_offsets\":[2,3]}}",
                3, "starts at byte 2"},
               {"{\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"w\":{\"dtype\":\"U8\",\"shape\":[0],"
                "\"data_offsets\":[0,0]}}",
                0, "a key appears twice"},
               {" {}", 0, "does not start with '{'"},
               {"[]", 0, "does not start with '{'"},
               {"{} x", 0, "something follows"},
               {"", 0, "does not start with '{'"}};
    char data[16];
    memset(data, 'X', sizeof data);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_safetensors(path, bad[i].header, strlen(bad[i].header), data, bad[i].bytes);
        FAILS(CR_IO, bad[i].message, cr_load(path, cr_cpu()));
    }
    put_safetensors(path, ONE("BOOL", "[2]", "[0,2]"), strlen(ONE("BOOL", "[2]", "[0,2]")), "\1\2", 2);
    FAILS(CR_IO, "has the byte 2 at 1", cr_load(path, cr_cpu()));
    static const struct { const char *bytes, *says;
    } others[] = {{"PK\3\4          ", "it is a zip, as torch.save writes"},
                  {"\x80\2\x8a\nl\xfc\x9c\x46\xf9 j", "it is a pickle, as old versions of torch.save wrote"},
                  {"GGUF          ", "12 bytes do not begin with a header"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        file_put(path, others[i].bytes, 12);
        FAILS(CR_IO, others[i].says, cr_load(path, cr_cpu()));
    }
    put_safetensors(path, "{}", 3, NULL, 0);
    FAILS(CR_IO, "its header has 3 bytes, and 2 follow", cr_load(path, cr_cpu()));
    put_safetensors(path, "{}", 0, NULL, 0);
    FAILS(CR_IO, "does not start with '{'", cr_load(path, cr_cpu()));
    put_safetensors(path, "{}", SIZE_MAX, NULL, 0);
    FAILS(CR_IO, "its header has 18446744073709551615 bytes", cr_load(path, cr_cpu()));
    file_put(path, "", 0);
    FAILS(CR_IO, "0 bytes are too few for a header", cr_load(path, cr_cpu()));
    FAILS(CR_IO, "No such file", cr_load("/nowhere/w.safetensors", cr_cpu()));
    FAILS(CR_IO, "weights.safetensors': No such file", cr_load("/", cr_cpu()));      /* no checkpoint's folder */
    FAILS(CR_BAD_VALUE, "NULL", cr_load(NULL, cr_cpu()));
    FAILS(CR_BAD_VALUE, "NULL", cr_load(path, NULL));
    ON_POSIX(FAILS(CR_IO, "Not a regular file", cr_load("/dev/null", cr_cpu()));
             REQUIRE(!mkfifo(folder_path("pipe"), 0600), "no pipe");
             /* does not wait for a writer */
             FAILS(CR_IO, "pipe': Not a regular file", cr_load(folder_path("pipe"), cr_cpu()));)
    FAILS(CR_IO, "No such file", cr_load_metadata("/nowhere/w.safetensors", "a"));
}

TEST(save_refused) {
    cr_params *p = cr_params_new(), *named = cr_params_new();
    cr_tensor *t = cr_ones(CR_LIST(300000), CR_F32, cr_cpu());
    OK(cr_params_add(p, "w", t));
    OK(cr_params_add(named, "__metadata__", t));
    const char *path = folder_path("x.safetensors");
    FAILS(CR_BAD_VALUE, "is not a JSON object", cr_save(path, p, "[]"));
    FAILS(CR_BAD_VALUE, "'a', which is not a string", cr_save(path, p, "{\"a\": 1}"));
    FAILS(CR_IO, "not valid JSON", cr_save(path, p, "{"));
    FAILS(CR_BAD_VALUE, "cannot be named '__metadata__'", cr_save(path, named, NULL));
    FAILS(CR_IO, "cannot create '/nowhere/x'", cr_save("/nowhere/x", p, NULL));
    FAILS(CR_IO, "/dev/full", cr_save("/dev/full", p, NULL));       /* no device is replaced by a file */
    FAILS(CR_BAD_VALUE, "NULL", cr_save(NULL, p, NULL));
    FAILS(CR_BAD_VALUE, "NULL", cr_save(path, NULL, NULL));
    CHECK(!cr_os_exists(path), "a refused file is there");
    cr_params_free(p);
    cr_params_free(named);
    cr_release(t);
}

/* ---- folders in Hugging Face's layout */
static bool there(const char *dir, const char *name) {
    char path[700];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return cr_os_exists(path);
}

static void put_in(const char *dir, const char *name, const char *text) {
    char path[800];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    file_put(path, text, strlen(text));
}

static int open_files(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) != -1;
    return n;
}

/* Two tensors of 8 bytes: 16 are one file, 15 are two and an index; each save removes what the one before had more. */
TEST(folders_of_shards) {
    const char *dir = folder_path("shards");
    cr_params *p = cr_params_new();
    cr_scope_begin();
    OK(cr_params_add(p, "a", cr_full(CR_LIST(2), 1, CR_F32, cr_cpu())));
    OK(cr_params_add(p, "b", cr_full(CR_LIST(2), 2, CR_F32, cr_cpu())));
    const int64_t most[] = {16, 15, 1, 0, 15};
    const int before = open_files();
    for (int i = 0; i < 5; i++) {
        OK(cr_save_folder(dir, p, "{}", most[i]));
        const bool parts = most[i] && most[i] < 16;
        CHECK(there(dir, "model.safetensors") == !parts && there(dir, "model.safetensors.index.json") == parts &&
                  there(dir, "model-00001-of-00002.safetensors") == parts &&
                  there(dir, "model-00002-of-00002.safetensors") == parts && there(dir, "config.json"),
              "the files of at most %lld bytes", (long long)most[i]);
        cr_params *q = cr_load(dir, cr_cpu());
        REQUIRE(q, "%s", cr_error());
        check_same(p, q, cr_cpu());
        cr_params_free(q);
    }
    const char *const names[] = {"..", ".", "", "a/b", "a\\\\b", "model\\u0000"};
    for (int i = 0; i < 6; i++) {
        char index[100];
        snprintf(index, sizeof index, "{\"weight_map\": {\"a\": \"%s\"}}", names[i]);
        put_in(dir, "model.safetensors.index.json", index);
        FAILS(CR_IO, "'a' is in no file of this folder", cr_load(dir, cr_cpu()));
    }
    OK(cr_save_folder(dir, p, "{}", 0));
    cr_scope_end();
    char ready[700];
    snprintf(ready, sizeof ready, "%s/.chainrule-ready", dir);
    CHECK(cr_os_make_directory(ready), "%s", cr_os_error());
    for (int i = 0; i < 3; i++) {
        put_in(ready, "shards", i == 0 ? "0" : i == 1 ? "-1" : "100000");
        FAILS(CR_IO, "of an interrupted save is damaged", cr_load(dir, cr_cpu()));
    }
    put_in(ready, "shards", "1");
    OK(cr_complete_folder(dir));                    /* its files are in their places */
    CHECK(!there(dir, ".chainrule-ready"), "the set stays");
    CHECK(open_files() == before, "%d files stay open", open_files() - before);
    /* no set of a save: a reader leaves it alone, a save refuses */
    for (int link = 0; link < 1 ON_POSIX(+ 1); link++) {
        if (link) CHECK(!symlink("..", ready), "symlink");
        else put_in(dir, ".chainrule-ready", "mine");
        cr_params *q = cr_load(dir, cr_cpu());
        CHECK(q && there(dir, ".chainrule-ready"), "link %d: %s", link, cr_error());
        cr_params_free(q);
        FAILS(CR_IO, "is not a folder that a save made", cr_save_folder(dir, p, "{}", 0));
        CHECK(!unlink(ready), "unlink");
    }
    CHECK(cr_os_remove_folder(dir), "%s", cr_os_error());
    cr_params_free(p);
}

/* ---- GGUF: files of a few entries and tensors, as bytes.  fuzz_gguf.c changes files at random */
typedef struct gguf_file { unsigned char at[1024]; size_t n; } gguf_file;

static void put_le(gguf_file *b, uint64_t v, size_t n) {
    for (size_t i = 0; i < n; i++) b->at[b->n++] = (unsigned char)(v >> 8 * i);
}

static void put_name(gguf_file *b, const char *name, size_t n) {
    put_le(b, n, 8);
    memcpy(b->at + b->n, name, n);
    b->n += n;
}

enum { GGUF_F32 = 0, GGUF_Q8_0 = 8, GGUF_U32 = 4, GGUF_F32_ENTRY = 6, GGUF_ARRAY = 9, GGUF_I64 = 11 };

/* Two tensors of `row` elements, of one type, at 0 and `place`; an entry with the alignment and an array that says
 * `count` u32 and has two; `room` bytes of data. */
typedef struct gguf_case {
    uint32_t version, align, type;
    uint64_t count, row, place, room;
    const char *name;
    size_t name_bytes;
    const char *message;                            /* NULL: it is read */
} gguf_case;

static void put_gguf(const char *path, const gguf_case *c) {
    gguf_file b = {.n = 0};
    memcpy(b.at, "GGUF", 4);
    b.n = 4;
    put_le(&b, c->version, 4), put_le(&b, 2, 8), put_le(&b, 2, 8);
    put_name(&b, "general.alignment", 17), put_le(&b, GGUF_U32, 4), put_le(&b, c->align, 4);
    put_name(&b, "numbers", 7), put_le(&b, GGUF_ARRAY, 4), put_le(&b, GGUF_U32, 4), put_le(&b, c->count, 8);
    put_le(&b, 7, 4), put_le(&b, 9, 4);
    for (int i = 0; i < 2; i++) {
        put_name(&b, i ? c->name : "first", i ? c->name_bytes : 5);
        put_le(&b, 1, 4), put_le(&b, c->row, 8), put_le(&b, c->type, 4), put_le(&b, i ? c->place : 0, 8);
    }
    while (b.n % c->align) put_le(&b, 0, 1);
    for (uint64_t i = 0; i < c->room; i++) put_le(&b, i % 4 == 3 ? 0x40 : 0, 1);       /* 2.0 */
    file_put(path, (const char *)b.at, b.n);
}

TEST(gguf_refused) {
    const gguf_case cases[] = {
        {3, 64, GGUF_F32, 2, 16, 64, 128, "w", 1, NULL},
        {2, 8, GGUF_F32, 2, 3, 16, 28, "w", 1, NULL},
        {4, 64, GGUF_F32, 2, 16, 64, 128, "w", 1, "GGUF of version 4"},
        {1, 64, GGUF_F32, 2, 16, 64, 128, "w", 1, "GGUF of version 1"},
        {3, 64, GGUF_F32, 70, 16, 64, 128, "w", 1, "an array is longer than the file"},
        {3, 64, GGUF_F32, 2, 16, 96, 192, "w", 1, "'w' is at 96, not a multiple of 64"},
        {3, 64, GGUF_Q8_0, 2, 33, 64, 192, "w", 1, "'first' have 33 elements, not a multiple of the block size 32"},
        {3, 64, GGUF_F32, 2, 16, 0, 64, "w", 1, "the tensors together more than the data"},
        {3, 64, GGUF_F32, 2, 16, 64, 127, "w", 1, "'w' has 64 bytes at 64, behind its end"},
        {3, 64, GGUF_F32, 2, 16, 64, 128, "w\0x", 3, "empty, holds a NUL"},
        {3, 64, GGUF_F32, 2, 16, 64, 128, "", 0, "empty, holds a NUL"}};
    const char *path = folder_path("small.gguf");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_gguf(path, &cases[i]);
        if (cases[i].message) { FAILS(CR_IO, cases[i].message, cr_load(path, cr_cpu())); continue; }
        cr_params *p = cr_load(path, cr_cpu());
        REQUIRE(p, "case %zu: %s", i, cr_error());
        cr_scope_begin();
        const cr_tensor *w = cr_params_get(p, "w");
        CHECK(w && cr_item(cr_sum(w, CR_ALL, false)) == 2 * (double)cases[i].row, "case %zu: other values", i);
        cr_scope_end();
        cr_params_free(p);
        CHECK(mappings_of("/small.gguf") == 0, "%d mappings stay", mappings_of("/small.gguf"));
    }
}

/* The kind of the entry of this one letter in a file of ours. */
static uint32_t kind_in(const char *path, char key) {
    size_t n;
    char *file = file_get(path, &n);
    const char name[9] = {1, 0, 0, 0, 0, 0, 0, 0, key};
    uint32_t kind = UINT32_MAX;
    for (size_t i = 24; i + 24 < n && kind == UINT32_MAX; i++)
        if (!memcmp(file + i, name, 9)) {
            const size_t at = i + (file[i + 9] == GGUF_ARRAY ? 13 : 9);
            kind = (unsigned char)file[at];
        }
    free(file);
    return kind;
}

TEST(gguf_written) {
    const char *path = folder_path("written.gguf");
    cr_params *p = cr_params_new();
    cr_scope_begin();
    cr_tensor *w = cr_reshape(cr_arange(-31.5, 32.5, 1, CR_F32, cr_cpu()), CR_LIST(2, 32));
    OK(cr_params_add(p, "token_embd.weight", w));
    OK(cr_params_add(p, "blk.0.weight", w));
    static const char entries[] = "{\"a\": 4294967295, \"b\": 4294967296, \"c\": [1, 1.5], \"d\": [1.5, 1]}";
    OK(cr_gguf_save("test", path, p, entries, "q4_0", NULL));
    CHECK(kind_in(path, 'a') == GGUF_U32 && kind_in(path, 'b') == GGUF_I64, "kinds %u and %u", kind_in(path, 'a'),
          kind_in(path, 'b'));
    CHECK(kind_in(path, 'c') == GGUF_F32_ENTRY && kind_in(path, 'd') == GGUF_F32_ENTRY, "arrays of %u and %u",
          kind_in(path, 'c'), kind_in(path, 'd'));
    cr_params *q = cr_load(path, cr_cpu());
    REQUIRE(q, "%s", cr_error());
    for (int i = 0; i < 2; i++) {
        const cr_tensor *off = cr_abs(cr_sub(cr_params_at(q, i), w));
        const double most = cr_item(cr_max(off, CR_ALL, false));
        CHECK(i ? most > 1 && most < 4.5 : most < 0.2, "'%s' is off by %g", cr_params_name(q, i), most);
    }
    cr_scope_end();
    cr_params_free(p);
    cr_params_free(q);
}

/* A disk that is full behaves like a file that may not grow: the write fails in the middle. */
static struct rlimit old_limit;
static void limit_files(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_limit);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, old_limit.rlim_max});
}
static void unlimit_files(void) {
    setrlimit(RLIMIT_FSIZE, &old_limit);
    signal(SIGXFSZ, SIG_DFL);
}

TEST(full_disk) {
    POSIX_ONLY("no limit of file sizes");
    const char *path = folder_path("full.safetensors"), *tokens = folder_path("full.tokens");
    cr_params *p = cr_params_new();
    cr_tensor *t = cr_ones(CR_LIST(300000), CR_F32, cr_cpu());
    OK(cr_params_add(p, "w", t));
    file_put(path, "old", 3);
    uint32_t *ids = calloc(50000, sizeof *ids);
    cr_tokens *many = cr_tokens_new(ids, 50000, 70000);
    free(ids);
    limit_files(4096);
    FAILS(CR_IO, "full.safetensors': File too large", cr_save(path, p, NULL));
    FAILS(CR_IO, "full.tokens': File too large", cr_tokens_save(many, tokens));
    unlimit_files();
    size_t bytes;
    char *old = file_get(path, &bytes);
    CHECK(bytes == 3 && !memcmp(old, "old", 3), "the old file has %zu bytes", bytes);
    CHECK(!cr_os_exists(tokens), "half a file");
    free(old);
    cr_tokens_free(many);
    cr_params_free(p);
    cr_release(t);
}

/* ---- checkpoints: a small model, y = x w, trained on random batches of a counted text */
typedef struct run {
    cr_tensor *w;
    cr_params *params;
    cr_optim *optim;
    cr_generator *g;
    cr_loader *loader;
    cr_training t;
} run;

static run run_new(uint64_t seed) {
    run r = {.g = cr_generator_new(seed), .params = cr_params_new()};
    r.w = cr_requires_grad_(cr_zeros(CR_LIST(4, 3), CR_F32, cr_cpu()), true);
    OK(cr_init_normal(r.w, 0, 1, r.g));
    OK(cr_params_add(r.params, "w", r.w));
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    r.optim = cr_optim_new(r.params, &o);
    uint32_t ids[200];
    for (uint32_t i = 0; i < 200; i++) ids[i] = i * 31 % 97;
    cr_tokens *tokens = cr_tokens_new(ids, 200, 97);
    r.loader = cr_loader_new(
        tokens, &(cr_loader_options){.batch = 3, .context = 4, .seed = 5, .shuffle = true, .device = cr_cpu()});
    cr_tokens_free(tokens);
    r.t = (cr_training){.params = r.params, .optim = r.optim, .generator = r.g, .loader = r.loader,
                        .metadata = "{\"note\": \"a \\\"run\\\"\"}"};
    return r;
}

static void run_free(run *r) {
    cr_loader_free(r->loader);
    cr_optim_free(r->optim);
    cr_params_free(r->params);
    cr_release(r->w);
    cr_generator_free(r->g);
}

static void run_steps(run *r, int n) {
    for (int i = 0; i < n; i++, r->t.step++) {
        cr_tensor *x, *y;
        cr_scope_begin();
        OK(cr_loader_next(r->loader, &x, &y));
        cr_tensor *noise = cr_rand(CR_LIST(3, 4), CR_F32, cr_cpu(), r->g);
        cr_tensor *h = cr_matmul(cr_add(cr_mul_scalar(cr_to(x, CR_F32, cr_cpu()), 0.01), noise), r->w);
        OK(cr_backward(cr_mean(cr_square(h), CR_ALL, false), CR_NONE, NULL));
        OK(cr_optim_step(r->optim));
        cr_params_zero_grad(r->params);
        cr_scope_end();
    }
}

static bool same_weights(const run *a, const run *b) {
    float x[12], y[12];
    OK(cr_read(a->w, CR_F32, x, sizeof x));
    OK(cr_read(b->w, CR_F32, y, sizeof y));
    return !memcmp(x, y, sizeof x);
}

static void remove_checkpoint(const char *dir) {
    static const char *const inside[] = {"/.chainrule-new", "/.chainrule-commit", ""};
    char path[700];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", dir, inside[i]);
        if (cr_os_exists(path)) CHECK(cr_os_remove_folder(path), "%s: %s", path, cr_os_error());
    }
}

TEST(training_resumes) {
    const char *dir = folder_path("run/checkpoint");
    run a = run_new(1), b = run_new(2);
    char *loaded;
    run_steps(&a, 7);
    (void)cr_params_get(a.params, "nothing");       /* a message that nobody has cleared */
    OK(cr_training_save(dir, &a.t));
    CHECK(cr_error() && strstr(cr_error(), "nothing"), "the earlier message is %s", cr_error());
    cr_error_clear();
    run_steps(&a, 40);                              /* past the end of an epoch */
    CHECK(!same_weights(&a, &b), "two seeds, the same weights");
    OK(cr_training_load(dir, &b.t));
    CHECK(b.t.step == 7 && cr_optim_steps(b.optim) == 7 && cr_loader_cursor(b.loader) == 7,
          "step %lld, %lld, batch %lld", (long long)b.t.step, (long long)cr_optim_steps(b.optim),
          (long long)cr_loader_cursor(b.loader));
    run_steps(&b, 40);
    CHECK(same_weights(&a, &b), "the resumed run has other bits");
    OK(cr_training_save(dir, &b.t));                /* over the old one */
    cr_training only = {.params = a.params, .step = -1};
    OK(cr_init_uniform(a.w, 0, 0, a.g));
    OK(cr_training_load(dir, &only));
    CHECK(only.step == 47 && same_weights(&a, &b), "weights alone: step %lld", (long long)only.step);
    char *weights = cr_training_weights(dir);
    loaded = weights ? cr_load_metadata(weights, "note") : NULL;
    cr_free(weights);
    FAILS(CR_BAD_VALUE, "the folder", cr_training_weights(NULL));
    CHECK(loaded && !strcmp(loaded, "a \"run\""), "metadata '%s'", loaded ? loaded : "(none)");
    cr_free(loaded);
    run_free(&a);
    run_free(&b);
    remove_checkpoint(dir);
    CHECK(cr_os_remove(folder_path("run")), "%s", cr_os_error());
}

TEST(training_interrupted) {                        /* at every point of a save a reader finds the old checkpoint or
                                                     * the new one */
    const char *dir = folder_path("broken"), *fresh = folder_path("broken/.chainrule-new"),
               *commit = folder_path("broken/.chainrule-commit");
    static const char *const files[] = {"weights.safetensors", "optimizer.safetensors", "state.json"};
    char from[700], to[700];
    for (int moved = -1; moved <= 3; moved++) {
        run a = run_new(1), b = run_new(2);
        run_steps(&a, 2);
        OK(cr_training_save(dir, &a.t));
        run_steps(&a, 3);
        OK(cr_training_save(folder_path("broken.next"), &a.t));
        /* as if the power went off here */
        CHECK(cr_os_rename(folder_path("broken.next"), moved < 0 ? fresh : commit), "%s", cr_os_error());
        for (int i = 0; i < moved; i++) {
            snprintf(from, sizeof from, "%s/%s", commit, files[i]);
            snprintf(to, sizeof to, "%s/%s", dir, files[i]);
            CHECK(cr_os_rename(from, to), "%s: %s", from, cr_os_error());
        }
        char *weights = cr_training_weights(dir);
        CHECK(weights && (strstr(weights, "commit") != NULL) == (moved == 0),
              "with %d files moved: the weights are '%s'", moved, weights ? weights : cr_error());
        cr_free(weights);
        OK(cr_training_load(dir, &b.t));
        CHECK(b.t.step == (moved < 0 ? 2 : 5), "with %d files moved: step %lld", moved, (long long)b.t.step);
        CHECK(same_weights(&a, &b) == (moved >= 0), "with %d files moved: a mixture", moved);
        run_steps(&b, 1);
        OK(cr_training_save(dir, &b.t));            /* goes on from there */
        CHECK(!cr_os_exists(fresh) && !cr_os_exists(commit), "work folders stay");
        OK(cr_training_load(dir, &a.t));
        CHECK(a.t.step == b.t.step && same_weights(&a, &b), "step %lld", (long long)a.t.step);
        run_free(&a);
        run_free(&b);
        remove_checkpoint(dir);
    }
}

TEST(training_full_disk) {
    POSIX_ONLY("no limit of file sizes");
    const char *dir = folder_path("small");
    run a = run_new(1), b = run_new(2);
    run_steps(&a, 2);
    OK(cr_training_save(dir, &a.t));
    run_steps(&a, 1);
    limit_files(150);
    FAILS(CR_IO, "File too large", cr_training_save(dir, &a.t));
    unlimit_files();
    OK(cr_training_load(dir, &b.t));
    CHECK(b.t.step == 2, "step %lld", (long long)b.t.step);
    run_free(&a);
    run_free(&b);
    remove_checkpoint(dir);
}

TEST(training_without_optimizer_over_one_with) {
    const char *dir = folder_path("less");
    run a = run_new(1), b = run_new(2);
    run_steps(&a, 2);
    OK(cr_training_save(dir, &a.t));
    run_steps(&a, 1);
    cr_training weights = {.params = a.params, .step = 3};
    OK(cr_training_save(dir, &weights));
    CHECK(!cr_os_exists(folder_path("less/optimizer.safetensors")), "the old moments stay beside the new weights");
    FAILS(CR_BAD_VALUE, "was saved without an optimizer", cr_training_load(dir, &b.t));
    b.t = (cr_training){.params = b.params};
    OK(cr_training_load(dir, &b.t));
    CHECK(b.t.step == 3 && same_weights(&a, &b), "step %lld", (long long)b.t.step);
    run_free(&a);
    run_free(&b);
    remove_checkpoint(dir);
}

/* A save that comes in while a reader opens its files: before the n-th open of the load. */
static run *writer;
static const char *written;
static int opens_until;

static void save_at_open(void) {
    if (opens_until-- != 0) return;
    on_open = NULL;
    run_steps(writer, 1);
    OK(cr_training_save(written, &writer->t));
}

TEST(training_read_while_it_is_saved) {
    SEES_CALLS();
    const char *dir = folder_path("live"), *commit = folder_path("live/.chainrule-commit");
    for (int n = 0; n < 12; n++) {                  /* even: from a set in its place; odd: from one that was only
                                                     * committed */
        run a = run_new(1), b = run_new(2);
        float m[12], want[12];
        char *note;
        run_steps(&a, 2);
        OK(cr_training_save(dir, &a.t));
        if (n % 2) {
            run_steps(&a, 1);
            OK(cr_training_save(folder_path("live.next"), &a.t));
            CHECK(cr_os_rename(folder_path("live.next"), commit), "%s", cr_os_error());
        }
        writer = &a, written = dir, opens_until = n / 2, on_open = save_at_open;
        OK(cr_training_load(dir, &b.t));
        on_open = NULL;
        /* the set before: one step behind, in all its parts */
        if (b.t.step != a.t.step) run_steps(&b, (int)(a.t.step - b.t.step));
        CHECK(n / 2 > 2 || opens_until < 0, "no save came in");
        CHECK(b.t.step == a.t.step && cr_optim_steps(b.optim) == b.t.step && cr_loader_cursor(b.loader) == b.t.step &&
                  same_weights(&a, &b),
              "open %d: a mixture at step %lld", n / 2, (long long)b.t.step);
        cr_params *x = cr_optim_state(a.optim), *y = cr_optim_state(b.optim);
        OK(cr_read(cr_params_get(x, "w.m"), CR_F32, want, sizeof want));
        OK(cr_read(cr_params_get(y, "w.m"), CR_F32, m, sizeof m));
        CHECK(!memcmp(m, want, sizeof m), "open %d: moments of another step", n / 2);
        cr_params_free(x);
        cr_params_free(y);
        opens_until = n / 2 % 2, on_open = save_at_open;
        cr_params *w = cr_load(dir, cr_cpu());      /* the weights by the folder's name */
        OK(cr_error_status());
        opens_until = n / 2 % 2, on_open = save_at_open;
        note = cr_load_metadata(dir, "note");
        on_open = NULL;
        CHECK(w && cr_params_get(w, "w") && note && !strcmp(note, "a \"run\""), "%s", cr_error());
        cr_free(note);
        cr_params_free(w);
        run_free(&a);
        run_free(&b);
        remove_checkpoint(dir);
    }
}

TEST(training_copies) {                             /* of a set in its place, and of one that was only committed */
    SEES_CALLS();
    const char *dir = folder_path("copied"), *to = folder_path("copy"),
               *commit = folder_path("copied/.chainrule-commit");
    for (int pending = 0; pending < 2; pending++) {
        run a = run_new(1), b = run_new(2), c = run_new(3);
        run_steps(&a, 2);
        OK(cr_training_save(dir, &a.t));
        run_steps(&a, 1);
        OK(cr_training_save(pending ? folder_path("copied.next") : dir, &a.t));
        if (pending) CHECK(cr_os_rename(folder_path("copied.next"), commit), "%s", cr_os_error());
        OK(cr_training_copy(dir, to));
        run_steps(&a, 2);
        OK(cr_training_save(dir, &a.t));
        OK(cr_training_load(to, &b.t));
        CHECK(b.t.step == 3 && !same_weights(&a, &b), "the copy is of step %lld", (long long)b.t.step);
        run_steps(&b, 2);
        CHECK(same_weights(&a, &b), "the copy goes on otherwise");
        OK(cr_training_copy(dir, to));              /* over the copy */
        OK(cr_training_load(to, &c.t));
        CHECK(c.t.step == 5 && same_weights(&a, &c), "the copy is of step %lld", (long long)c.t.step);
        writer = &a, written = dir, opens_until = 6, on_open = save_at_open;
        FAILS(CR_IO, "was saved into meanwhile", cr_training_copy(dir, to));
        on_open = NULL;
        OK(cr_training_load(to, &c.t));
        CHECK(c.t.step == 5, "a copy that failed left step %lld", (long long)c.t.step);
        OK(cr_training_save(folder_path("copied.next"), &a.t));
        CHECK(cr_os_rename(folder_path("copied.next"), commit), "%s", cr_os_error());
        OK(cr_training_copy(dir, dir));             /* completes the save */
        OK(cr_training_load(dir, &c.t));
        CHECK(!cr_os_exists(commit) && cr_os_exists(folder_path("copied/state.json")) && c.t.step == a.t.step &&
                  same_weights(&a, &c),
              "step %lld", (long long)c.t.step);
        FAILS(CR_IO, "is not a folder", cr_training_copy(folder_path("nowhere"), folder_path("neither")));
        CHECK(!cr_os_exists(folder_path("neither")), "a copy of nothing");
        FAILS(CR_BAD_VALUE, "NULL", cr_training_copy(NULL, to));
        FAILS(CR_BAD_VALUE, "NULL", cr_training_copy(dir, NULL));
        run_free(&a);
        run_free(&b);
        run_free(&c);
        remove_checkpoint(dir);
        remove_checkpoint(to);
    }
}

/* The order of synchronisation: each file before it gets its name, each folder after a name in it has changed. */
static struct { char path[640]; bool folder, weights, commit; } synced[40];
static int n_synced;
static char commit_folder[640], weights_file[640];

static void note_fsync(int fd) {
    char link[64];
    struct stat st;
    if (n_synced == 40) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, synced[n_synced].path, sizeof synced[0].path - 1);
    synced[n_synced].path[n > 0 ? n : 0] = 0;
    synced[n_synced].folder = !fstat(fd, &st) && S_ISDIR(st.st_mode);
    synced[n_synced].commit = cr_os_exists(commit_folder);
    synced[n_synced++].weights = cr_os_exists(weights_file);
}

/* The first fsync at or behind i of a folder, or of a file, whose path has this in it; -1: none. */
static int find_sync(int i, bool of_folder, const char *part) {
    for (; i >= 0 && i < n_synced; i++)
        if (synced[i].folder == of_folder && strstr(synced[i].path, part)) return i;
    return -1;
}

TEST(saves_are_synchronised) {
    SEES_CALLS();
    const char *path = folder_path("sync.safetensors"), *dir = folder_path("sync");
    run a = run_new(1);
    snprintf(commit_folder, sizeof commit_folder, "%s/.chainrule-commit", dir);
    snprintf(weights_file, sizeof weights_file, "%s/weights.safetensors", dir);
    on_fsync = note_fsync;
    n_synced = 0;
    OK(cr_save(path, a.params, NULL));
    CHECK(n_synced == 2 && !synced[0].folder && strstr(synced[0].path, ".chainrule-") && synced[1].folder,
          "%d fsyncs, the first of '%s'", n_synced, synced[0].path);
    n_synced = 0;
    OK(cr_training_save(dir, &a.t));
    on_fsync = NULL;
    int files = 0, file = -1;
    for (int i = 0; i < n_synced; i++) if (!synced[i].folder) files++, file = i;
    CHECK(!strcmp(synced[0].path, folder_name) && !strcmp(synced[1].path, dir),
          "the folders that got a folder: '%s', '%s'", synced[0].path, synced[1].path);
    const int committed = find_sync(file, true, "/sync"), inside = find_sync(file, true, "/.chainrule-new");
    CHECK(files == 3 && inside > file, "%d files, the last at %d, their folder at %d", files, file, inside);
    int commit = inside + 1;                        /* renamed: then the folder itself, before a file leaves
                                                     * .chainrule-commit */
    CHECK(committed >= 0 && commit < n_synced && synced[commit].folder && synced[commit].commit &&
              !synced[commit].weights,
          "the commit, at %d of %d", commit, n_synced);
    CHECK(n_synced - commit == 4 && synced[commit + 1].weights && synced[n_synced - 1].folder,
          "%d fsyncs behind the commit, one for each file is wanted", n_synced - commit - 1);
    run_free(&a);
    remove_checkpoint(dir);
}

/* ---- what no save made */
static cr_params *one_weight(float value) {
    cr_params *p = cr_params_new();
    cr_tensor *w = cr_full(CR_LIST(3), value, CR_F32, cr_cpu());
    OK(cr_params_add(p, "w", w));
    cr_release(w);
    return p;
}

static bool holds(const char *dir, float value) {
    float x[3] = {0};
    cr_params *p = cr_load(dir, cr_cpu());
    const bool good = p && !cr_read(cr_params_at(p, 0), CR_F32, x, sizeof x) && x[0] == value && x[2] == value;
    cr_params_free(p);
    return good;
}

static void put_text(const char *dir, const char *name, const char *text) {
    char path[800];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    file_put(path, text, strlen(text));
}

static void remove_in(const char *dir, const char *name) {
    char path[800];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK(cr_os_is_directory(path) ? cr_os_remove_folder(path) : cr_os_remove(path), "%s: %s", path,
          cr_os_error());
}

/* Each working name as a link, as a file, and as a folder with other files: readers read what is beside it, writers
 * name it, and nothing is removed. */
TEST(what_no_save_made_stays) {
    static const char *const names[] = {".chainrule-new", ".chainrule-ready", ".chainrule-commit"};
    enum { FILE_, FOLDER, LINK, KINDS = LINK ON_POSIX(+ 1) };
    cr_params *one = one_weight(1), *two = one_weight(2);
    for (int row = 0; row < 2 * 3 * KINDS; row++) {
        const bool training = row % 2;
        const char *name = names[row / 2 % 3], *dir = folder_path("foreign"), *victim = folder_path("victim");
        const int kind = row / 6;
        const cr_training t = {.params = two};
        char at[700];
        snprintf(at, sizeof at, "%s/%s", dir, name);
        CHECK(cr_os_make_directory(victim), "%s", cr_os_error());
        put_text(victim, "thesis", "dear");
        if (training) OK(cr_training_save(dir, &(cr_training){.params = one}));
        else OK(cr_save_folder(dir, one, "{}", 0));
        if (kind == LINK) CHECK(!symlink("../victim", at), "symlink");
        if (kind == FILE_) file_put(at, "mine", 4);
        if (kind == FOLDER) {
            CHECK(cr_os_make_directory(at), "%s", cr_os_error());
            put_text(at, "thesis", "dear");
        }
        CHECK(holds(dir, 1), "%s, kind %d: %s", name, kind, cr_error() ? cr_error() : "another weight");
        cr_error_clear();
        const cr_status status = training ? cr_training_save(dir, &t) : cr_save_folder(dir, two, "{}", 0);
        const bool used = strcmp(name, training ? ".chainrule-ready" : ".chainrule-commit") != 0;
        CHECK(used ? status == CR_IO && strstr(cr_error(), name) : status == CR_OK, "%s, kind %d: %s", name, kind,
              cr_error() ? cr_error() : "saved");
        cr_error_clear();
        CHECK(holds(dir, used ? 1 : 2) && cr_os_exists(folder_path("victim/thesis")), "%s, kind %d", name, kind);
        if (kind == FOLDER) remove_in(at, "thesis");
        remove_in(dir, name);
        OK(training ? cr_training_save(dir, &t) : cr_save_folder(dir, two, "{}", 0));
        CHECK(holds(dir, 2), "after it was moved away");
        CHECK(cr_os_remove_folder(dir) && cr_os_remove_folder(victim), "%s", cr_os_error());
    }
    cr_params_free(one);
    cr_params_free(two);
}

/* A complete set with other things in it: they are not moved. */
TEST(only_files_of_a_save_are_moved) {
    const char *dir = folder_path("mixed");
    cr_params *one = one_weight(1), *two = one_weight(2);
    const cr_training t = {.params = two};
    OK(cr_training_save(dir, &(cr_training){.params = one}));
    OK(cr_training_save(folder_path("mixed.next"), &t));
    CHECK(cr_os_rename(folder_path("mixed.next"), folder_path("mixed/.chainrule-commit")), "%s", cr_os_error());
    put_text(dir, "thesis", "mine");
    put_text(folder_path("mixed/.chainrule-commit"), "thesis", "another");
    FAILS(CR_IO, "'thesis' in it", cr_training_save(dir, &t));
    char *text = file_get(folder_path("mixed/thesis"), NULL);
    CHECK(!strcmp(text, "mine") && holds(dir, 2), "'%s'", text);
    free(text);
    remove_checkpoint(dir);
    /* a set of one file that is not there: DIR's shards stay */
    OK(cr_params_add(two, "v", cr_params_at(two, 0)));
    OK(cr_save_folder(dir, two, "{}", 1));
    CHECK(cr_os_make_directory(folder_path("mixed/.chainrule-ready")), "%s", cr_os_error());
    put_text(folder_path("mixed/.chainrule-ready"), "shards", "1");
    FAILS(CR_IO, "lacks model.safetensors", cr_load(dir, cr_cpu()));
    remove_in(dir, ".chainrule-ready");
    CHECK(holds(dir, 2) && cr_os_exists(folder_path("mixed/model-00002-of-00002.safetensors")), "shards are gone");
    CHECK(cr_os_remove_folder(dir), "%s", cr_os_error());
    cr_params_free(one);
    cr_params_free(two);
}

TEST(checkpoints_are_checked_and_removed) {
    const char *dir = folder_path("mine");
    cr_params *one = one_weight(1);
    OK(cr_training_check(dir));
    OK(cr_training_remove(dir));
    OK(cr_training_save(dir, &(cr_training){.params = one}));
    OK(cr_training_check(dir));
    put_text(dir, "thesis", "dear");
    FAILS(CR_IO, "mine/thesis' was not written by a save", cr_training_check(dir));
    FAILS(CR_IO, "'thesis' in it", cr_training_remove(dir));
    CHECK(holds(dir, 1) && cr_os_exists(folder_path("mine/thesis")), "something was removed");
    remove_in(dir, "thesis");
    CHECK(cr_os_make_directory(folder_path("mine/.chainrule-new")), "%s", cr_os_error());
    put_text(folder_path("mine/.chainrule-new"), "thesis", "dear");
    FAILS(CR_IO, ".chainrule-new/thesis' was not written", cr_training_check(dir));
    remove_in(folder_path("mine/.chainrule-new"), "thesis");
    put_text(folder_path("mine/.chainrule-new"), "weights.safetensors", "half");
    OK(cr_training_check(dir));
    ON_POSIX(CHECK(!symlink("mine", folder_path("link")), "symlink");
             FAILS(CR_IO, "link' is not the folder of a checkpoint", cr_training_check(folder_path("link")));
             FAILS(CR_IO, "link' is not a folder that a save made", cr_training_remove(folder_path("link")));
             CHECK(cr_os_remove(folder_path("link")), "%s", cr_os_error());)
    OK(cr_training_remove(dir));
    CHECK(!cr_os_exists(dir), "it is still there");
    CHECK(cr_os_make_directory(dir), "%s", cr_os_error());
    put_text(dir, "weights.safetensors", "of another program");
    FAILS(CR_IO, "state.json", cr_training_check(dir));
    CHECK(cr_os_remove_folder(dir), "%s", cr_os_error());
    FAILS(CR_BAD_VALUE, "NULL", cr_training_check(NULL));
    FAILS(CR_BAD_VALUE, "NULL", cr_training_remove(NULL));
    cr_params_free(one);
}

/* A save that ended while it moved its files: the next one removes what the state no longer has. */
TEST(a_completed_save_has_no_old_files) {
    const char *dir = folder_path("fewer");
    run a = run_new(1);
    run_steps(&a, 1);
    OK(cr_training_save(dir, &a.t));
    const cr_training only = {.params = a.params};
    OK(cr_training_save(folder_path("fewer.next"), &only));
    CHECK(cr_os_rename(folder_path("fewer.next"), folder_path("fewer/.chainrule-commit")), "%s", cr_os_error());
    CHECK(cr_os_exists(folder_path("fewer/optimizer.safetensors")), "of the first save");
    OK(cr_training_merge(dir));
    CHECK(!cr_os_exists(folder_path("fewer/optimizer.safetensors")) &&
              !cr_os_exists(folder_path("fewer/.chainrule-commit")),
          "an old file stays");
    run_free(&a);
    remove_checkpoint(dir);
}

/* Several writers and readers of one folder: each save is whole, each read sees one. */
typedef struct writing { const char *dir; bool training; int first, bad; } writing;

static void write_often(void *ctx) {
    writing *w = ctx;
    for (int i = 0; i < 20; i++) {
        const float value = (float)(w->first + i);
        cr_params *p = one_weight(value);
        cr_tensor *v = cr_full(CR_LIST(3), value, CR_F32, cr_cpu());
        if (i % 3) OK(cr_params_add(p, "v", v));
        const cr_training t = {.params = p, .step = w->first + i};
        const cr_status status = w->training ? cr_training_save(w->dir, &t) : cr_save_folder(w->dir, p, "{}", i % 2);
        if (status != CR_OK) w->bad++, printf("    %s\n", cr_error());
        cr_release(v);
        cr_params_free(p);
    }
}

TEST(saves_into_one_folder_follow_each_other) {
    for (int training = 0; training < 2; training++) {
        const char *dir = folder_path(training ? "busy training" : "busy");
        writing w[3] = {{dir, training, 100, 0}, {dir, training, 200, 0}, {dir, training, 300, 0}};
        cr_thread *threads[3];
        int reads = 0;
        write_often(&w[0]);
        for (int i = 0; i < 3; i++) threads[i] = cr_thread_start(write_often, &w[i]);
        for (int i = 0; training && i < 100; i++) {
            float x[3], y[3];
            cr_params *p = cr_load(dir, cr_cpu());
            CHECK(p, "%s", cr_error());
            if (!p) break;
            OK(cr_read(cr_params_at(p, 0), CR_F32, x, sizeof x));
            OK(cr_read(cr_params_at(p, cr_params_count(p) - 1), CR_F32, y, sizeof y));
            CHECK(!memcmp(x, y, sizeof x), "a mixture of %g and %g", (double)x[0], (double)y[0]);
            reads++;
            cr_params_free(p);
        }
        for (int i = 0; i < 3; i++) cr_thread_join(threads[i]);
        CHECK(!w[0].bad && !w[1].bad && !w[2].bad && (!training || reads == 100), "%d, %d and %d saves failed",
              w[0].bad, w[1].bad, w[2].bad);
        CHECK(holds(dir, 119) || holds(dir, 219) || holds(dir, 319), "the last save is that of no writer");
        CHECK(cr_os_remove_folder(dir), "%s", cr_os_error());
    }
}

static void put_state(const char *dir, const char *state) {
    char path[700];
    snprintf(path, sizeof path, "%s/state.json", dir);
    file_put(path, state, strlen(state));
}

TEST(training_refused) {                            /* and nothing is changed by what is refused */
    const char *dir = folder_path("refused");
    run a = run_new(1), b = run_new(2), before = run_new(2);
    run_steps(&a, 3);
    FAILS(CR_IO, "is not a folder", cr_training_load(dir, &b.t));
    OK(cr_training_save(dir, &a.t));
    cr_params *other = cr_params_new();
    cr_tensor *v = cr_requires_grad_(cr_zeros(CR_LIST(4, 3), CR_F32, cr_cpu()), true),
              *wrong = cr_zeros(CR_LIST(3, 4), CR_F32, cr_cpu());
    OK(cr_params_add(other, "v", v));
    cr_training t = b.t;
    t.params = other;                               /* optimizer fits, weights do not */
    FAILS(CR_BAD_VALUE, "'v' is missing, 'w' is not wanted", cr_training_load(dir, &t));
    CHECK(cr_optim_steps(b.optim) == 0, "the optimizer was loaded: %lld steps", (long long)cr_optim_steps(b.optim));
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    cr_optim *stranger = cr_optim_new(other, &o);
    t = b.t;
    t.optim = stranger;
    FAILS(CR_BAD_VALUE, "'w.m' belongs to no parameter", cr_training_load(dir, &t));
    uint32_t ids[300] = {0};
    cr_tokens *tokens = cr_tokens_new(ids, 300, 97);
    for (int batch = 3; batch < 64; batch += 30) {  /* more batches than it was saved with, and fewer */
        t = b.t;
        t.loader = cr_loader_new(tokens, &(cr_loader_options){.batch = batch, .context = 4, .device = cr_cpu()});
        FAILS(CR_BAD_VALUE, "another text, batch or context", cr_training_load(dir, &t));
        cr_loader_free(t.loader);
    }
    cr_tokens_free(tokens);
    cr_scaler *grown = cr_scaler_new(&(cr_scaler_options){1024, 2, 0.5, 7, true}), *kept = cr_scaler_new(NULL);
    a.t.scaler = grown;
    OK(cr_training_save(dir, &a.t));
    t = b.t;
    t.scaler = kept;
    t.params = other;
    FAILS(CR_BAD_VALUE, "'v' is missing", cr_training_load(dir, &t));
    CHECK(cr_scaler_scale_of(kept) == 65536, "the scaler was loaded: %g", cr_scaler_scale_of(kept));
    cr_scaler_free(grown);
    cr_scaler_free(kept);

    static const char head[] = "{\"format\": \"chainrule-training\", \"version\": 1, \"step\": 3, \"weights\": true, ";
    const struct { const char *rest, *message;
    } bad[] = {
        {"\"optimizer\": null, \"generator\": null, \"loader\": null}", "was saved without an optimizer"},
        {"\"optimizer\": {\"steps\": 3}, \"generator\": null, \"loader\": null}", "was saved without a generator"},
        {"\"optimizer\": {\"steps\": 3}, \"generator\": {\"seed\": \"1\", \"counter\": \"2\"}, \"loader\": null}",
         "was saved without a loader"},
        {"\"optimizer\": {\"steps\": -3}, \"generator\": null, \"loader\": null}", "lacks the optimizer's \"steps\""},
        {"\"optimizer\": {\"steps\": 3}, \"generator\": {\"seed\": \"18446744073709551616\", \"counter\": \"2\"}, "
         "\"loader\": null}",
         "lacks the generator's"},
        {"\"optimizer\": {\"steps\": 3}, \"generator\": {\"seed\": 1, \"counter\": \"2\"}, \"loader\": null}",
         "lacks the generator's"},
        {"\"optimizer\": {\"steps\": 3}, \"generator\": {\"seed\": \"1\", \"counter\": \"2\"}, \"loader\": "
         "{\"cursor\": 1.5, \"batches\": 3}}",
         "lacks the loader's"},
        {"\"optimizer\": {\"steps\": 3}, \"generator\": null}", "lacks \"loader\""},
        {"", "is not valid JSON"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char state[500];
        snprintf(state, sizeof state, "%s%s", head, bad[i].rest);
        put_state(dir, state);
        t = b.t;
        FAILS(cr_error_status(), bad[i].message, cr_training_load(dir, &t));
    }
    put_state(dir, "{\"format\": \"something\"}");
    FAILS(CR_IO, "lacks \"format\": \"chainrule-training\"", cr_training_load(dir, &b.t));
    CHECK(cr_os_remove(folder_path("refused/state.json")), "%s", cr_os_error());
    FAILS(CR_IO, "state.json': No such file", cr_training_load(dir, &b.t));
    CHECK(same_weights(&b, &before) && b.t.step == 0 && cr_optim_steps(b.optim) == 0 && cr_loader_cursor(b.loader) == 0,
          "a refused load changed something");
    FAILS(CR_BAD_VALUE, "step must be at least 0, not -1", cr_training_save(dir, &(cr_training){.step = -1}));
    FAILS(CR_BAD_VALUE, "JSON object of strings", cr_training_save(dir, &(cr_training){.metadata = "{\"a\": 1}"}));
    FAILS(CR_IO, "cannot create '/dev/null/x'", cr_training_save("/dev/null/x", &a.t));
    FAILS(CR_BAD_VALUE, "NULL", cr_training_save(NULL, &a.t));
    FAILS(CR_BAD_VALUE, "NULL", cr_training_load(dir, NULL));
    cr_optim_free(stranger);
    cr_params_free(other);
    cr_release(v);
    cr_release(wrong);
    run_free(&a); run_free(&b); run_free(&before);
    remove_checkpoint(dir);
}

/* The moments of two ranks, as pieces of flat tensors. */
static cr_status load_pieces(const char *dir, cr_optim *opt, const char *first, const char *second) {
    cr_scope_begin();
    for (int rank = 0; rank < 2; rank++) {
        char path[700], name[64];
        cr_params *part = cr_params_new();
        for (int k = 0; k < 2; k++) {
            snprintf(name, sizeof name, "w.%c%s", k ? 'v' : 'm', rank ? second : first);
            OK(cr_params_add(part, name, cr_full(CR_LIST(6), 2 * rank + k, CR_F32, cr_cpu())));
        }
        snprintf(path, sizeof path, "%s/optimizer-%05d-of-00002.safetensors", dir, rank + 1);
        OK(cr_save(path, part, NULL));
        cr_params_free(part);
    }
    cr_scope_end();
    return cr_training_load(dir, &(cr_training){.optim = opt});
}

TEST(training_in_pieces) {
    const char *dir = folder_path("pieces");
    run a = run_new(1);
    OK(cr_training_save(dir, &(cr_training){.optim = a.optim}));
    put_state(dir, "{\"format\": \"chainrule-training\", \"version\": 1, \"step\": 3, \"ranks\": 2, "
                   "\"weights\": null, \"optimizer\": {\"steps\": 3}, \"generator\": null, \"loader\": null}");
    OK(load_pieces(dir, a.optim, "@0:4x3", "@6:4x3"));
    cr_params *state = cr_optim_state(a.optim);
    float v[12];
    OK(cr_read(cr_params_get(state, "w.v"), CR_F32, v, sizeof v));
    CHECK(v[0] == 1 && v[5] == 1 && v[6] == 3 && v[11] == 3, "%g %g %g %g", (double)v[0], (double)v[5], (double)v[6],
          (double)v[11]);
    cr_params_free(state);
    FAILS(CR_IO, "the pieces of 'w.m' do not fit each other", load_pieces(dir, a.optim, "@0:2x3", "@6:4x3"));
    FAILS(CR_IO, "24 elements of moments in place of 36", load_pieces(dir, a.optim, "@0:4x3", "@7:4x3"));
    run_free(&a);
    remove_checkpoint(dir);
}

/* ---- the profiler */
static const char *odd_source(void *ctx) {
    (void)ctx;
    return "a \"place\"\\\n\xc3\xa9 .................................................\xc3\xa9 beyond the room";
}

static void another_thread(void *arg) {
    (void)arg;
    cr_tensor *x = cr_ones(CR_LIST(3), CR_F64, cr_cpu());
    cr_release(cr_exp(x));
    cr_release(x);
}

static const cr_json *event_named(const cr_json *root, const char *name) {
    const cr_json *e = cr_json_get(root, "traceEvents");
    for (e = e ? e->first : NULL; e; e = e->next) {
        const cr_json *n = cr_json_get(e, "name");
        if (n && !strcmp(n->text, name)) return e;
    }
    CHECK(0, "no event '%s'", name);
    return NULL;
}

static const cr_json *arg_of(const cr_json *event, const char *key) {
    return event ? cr_json_get(cr_json_get(event, "args"), key) : NULL;
}
static int64_t whole(const cr_json *j) { return j && j->kind == CR_JSON_NUMBER ? j->integer : -1; }
static const char *words(const cr_json *j) { return j && j->kind == CR_JSON_STRING ? j->text : "(none)"; }

TEST(profile) {
    const char *path = folder_path("profile.json");
    cr_scope_begin();
    cr_tensor *x = cr_requires_grad_(cr_ones(CR_LIST(2, 3), CR_F32, cr_cpu()), true),
              *w = cr_ones(CR_LIST(3, 5), CR_F32, cr_cpu());
    cr_params *p = cr_params_new();
    OK(cr_params_add(p, "x", x));
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    cr_optim *opt = cr_optim_new(p, &o);
    cr_release(cr_tanh(x));                          /* before: not in it */
    OK(cr_profile_begin());
    FAILS(CR_RUNTIME, "already", cr_profile_begin());
    OK(cr_backward(cr_sum(cr_softmax(cr_matmul(x, w), 1), CR_ALL, false), CR_NONE, NULL));
    OK(cr_optim_step(opt));
    cr_release(cr_to(w, CR_BF16, cr_cpu()));
    cr_release(cr_to(w, CR_F32, cr_ref()));
    cr_set_source(odd_source, NULL);
    cr_release(cr_neg(w));
    cr_set_source(NULL, NULL);
    cr_thread_join(cr_thread_start(another_thread, NULL));
    OK(cr_profile_end(path));
    FAILS(CR_RUNTIME, "no profile", cr_profile_end(path));
    cr_release(cr_log(x));

    size_t bytes;
    char *text = file_get(path, &bytes);
    cr_json *root = cr_json_parse("test", path, text, bytes);
    REQUIRE(root, "%s", cr_error());
    const cr_json *product = event_named(root, "matmul"), *in = arg_of(product, "inputs");
    CHECK(in && in->count == 2 && !strcmp(words(in->first), "float32 (2, 3)") &&
              !strcmp(words(in->first->next), "float32 (3, 5)"),
          "inputs of the product");
    CHECK(!strcmp(words(arg_of(product, "result")), "float32 (2, 5)") &&
              whole(arg_of(product, "bytes")) == 4 * (6 + 15 + 10),
          "its result, %lld bytes", (long long)whole(arg_of(product, "bytes")));
    CHECK(!strcmp(words(arg_of(product, "device")), "cpu") && !arg_of(product, "source"), "its device");
    CHECK(product && !strcmp(words(cr_json_get(product, "ph")), "X") && cr_json_get(product, "ts")->number >= 0 &&
              cr_json_get(product, "dur")->number > 0,
          "its time");
    const cr_json *softmax = event_named(root, "softmax"), *back = event_named(root, "softmax backward");
    CHECK(back && softmax &&
              cr_json_get(back, "ts")->number >=
                  cr_json_get(softmax, "ts")->number + cr_json_get(softmax, "dur")->number - 0.001,
          "backward comes after forward");
    CHECK(event_named(root, "cast") && event_named(root, "transfer") && event_named(root, "adamw"),
          "casts, moves and updates");
    CHECK(!strcmp(words(arg_of(event_named(root, "neg"), "source")),
                  "a \"place\"\\\n\xc3\xa9 ................................................."),
          "the source: %s", words(arg_of(event_named(root, "neg"), "source")));
    const cr_json *elsewhere = event_named(root, "exp");
    CHECK(elsewhere && whole(cr_json_get(elsewhere, "tid")) != whole(cr_json_get(product, "tid")), "the other thread");
    for (const cr_json *e = cr_json_get(root, "traceEvents")->first; e; e = e->next)
        CHECK(strcmp(words(cr_json_get(e, "name")), "tanh") && strcmp(words(cr_json_get(e, "name")), "log"),
              "an event from outside: %s", words(cr_json_get(e, "name")));
    cr_json_free(root);
    free(text);

    /* more than fit */
    OK(cr_profile_begin());
    for (int i = 0; i < 100007; i++) cr_release(cr_neg(w));
    OK(cr_profile_end(path));
    FILE *f = fopen(path, "r");
    char line[256] = "";
    CHECK(f && fgets(line, sizeof line, f) && strstr(line, "\"dropped events\":7,") &&
              strstr(line, "\"most events\":100000"),
          "the file begins: %s", line);
    if (f) fclose(f);
    OK(cr_profile_begin());
    FAILS(CR_IO, "[profile_end] cannot create", cr_profile_end(folder_path("no/such/folder.json")));
    FAILS(CR_RUNTIME, "no profile", cr_profile_end(path));
    cr_optim_free(opt);
    cr_params_free(p);
    cr_scope_end();
    test_ran_on(cr_cpu());
}
