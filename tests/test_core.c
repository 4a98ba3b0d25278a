/* test_core.c - dtypes, shapes, conversions, random numbers: what every layer stands on. */
#include "test.h"
#include "posix.h"


#include "core/out.h"
#include "core/rng.h"
#include "core/table.h"
#include "core/tensor.h"

TEST(half_precision_round_trips) {
    for (uint32_t h = 0; h < 65536; h++) {
        float f = cr_f16_to_f32((uint16_t)h), b = cr_bf16_to_f32((uint16_t)h);
        if (isnan(f)) CHECK(isnan(cr_f16_to_f32(cr_f32_to_f16(f))), "f16 %04x: NaN lost", h);
        else CHECK(cr_f32_to_f16(f) == h, "f16 %04x -> %g -> %04x", h, (double)f, cr_f32_to_f16(f));
        if (isnan(b)) CHECK(isnan(cr_bf16_to_f32(cr_f32_to_bf16(b))), "bf16 %04x: NaN lost", h);
        else CHECK(cr_f32_to_bf16(b) == h, "bf16 %04x -> %g -> %04x", h, (double)b, cr_f32_to_bf16(b));
    }
}

#ifdef __FLT16_MAX__
static float bits(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }

TEST(f16_rounds_as_the_compiler_does) {
    uint32_t step = test_exhaustive() ? 1 : test_full() ? 61 : 997;
    for (uint64_t u = 0; u < 1ull << 32; u += step) {
        float f = bits((uint32_t)u);
        __extension__ _Float16 want = (_Float16)f;
        uint16_t w, h = cr_f32_to_f16(f);
        memcpy(&w, &want, 2);
        if (isnan(f) ? !isnan(cr_f16_to_f32(h)) : h != w) {
            CHECK(0, "%08x (%g): %04x, wanted %04x", (uint32_t)u, (double)f, h, w);
            return;
        }
    }
}
#endif

/* f64 -> half in one rounding: a value just above the middle of two halves must go up although f32
 * rounds it to the middle. */
TEST(f64_to_half_rounds_once) {
    double middle = 1 + 0x1p-11, above = middle + 0x1p-40, below = middle - 0x1p-40;
    uint16_t h;
    cr_store_f64(&h, CR_F16, middle); CHECK(cr_f16_to_f32(h) == 1, "middle goes to even");
    cr_store_f64(&h, CR_F16, above);  CHECK(cr_f16_to_f32(h) == 1 + 0x1p-10f, "above goes up");
    cr_store_f64(&h, CR_F16, below);  CHECK(cr_f16_to_f32(h) == 1, "below goes down");
    cr_store_f64(&h, CR_BF16, 1 + 0x1p-8 + 0x1p-40); CHECK(cr_bf16_to_f32(h) == 1 + 0x1p-7f, "bf16 above goes up");
    cr_store_f64(&h, CR_F16, 1e300);  CHECK(isinf(cr_f16_to_f32(h)), "overflow is infinity");
}

TEST(conversions) {
    static const struct { double from; cr_dtype to; double want;
    } cases[] = {
        {3.9, CR_I32, 3},
        {-3.9, CR_I32, -3},
        {300, CR_U8, 255},
        {-1, CR_U8, 0},
        {200, CR_I8, 127},
        {-200, CR_I8, -128},
        {1e10, CR_I32, 2147483647},
        {-1e30, CR_I64, -0x1p63},
        {1e30, CR_U64, 0x1p64},
        {0.5, CR_BOOL, 1},
        {0, CR_BOOL, 0},
        {1e39, CR_F32, INFINITY},
        {70000, CR_U16, 65535},
        {-7, CR_U32, 0},
        {5e9, CR_U32, 4294967295.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char cell[8] = {0};
        cr_convert(cell, cases[i].to, &cases[i].from, CR_F64);
        double got = cr_load_f64(cell, cases[i].to);
        CHECK(got == cases[i].want, "%g as %s: %g, wanted %g", cases[i].from, cr_dtype_name(cases[i].to), got,
              cases[i].want);
    }
    double nan = NAN;
    int32_t x = 5;
    cr_convert(&x, CR_I32, &nan, CR_F64);
    CHECK(x == 0, "NaN as int32: %d", x);
    uint64_t big = 0xffffffffffffffffull, back;
    cr_convert(&back, CR_U64, &big, CR_U64);
    int8_t wrapped;
    cr_convert(&wrapped, CR_I8, &big, CR_U64);
    CHECK(back == big && wrapped == -1, "u64 keeps its bits, narrower integers wrap");
    CHECK(cr_load_f64(&big, CR_U64) == 0x1p64, "u64 as f64 is positive");
}

TEST(promotion_is_symmetric_and_has_no_smaller_result) {
    for (int a = 0; a < CR_DTYPES; a++)
        for (int b = 0; b < CR_DTYPES; b++) {
            cr_dtype p = cr_promote((cr_dtype)a, (cr_dtype)b);
            CHECK(p == cr_promote((cr_dtype)b, (cr_dtype)a), "%s, %s", cr_dtype_name((cr_dtype)a),
                  cr_dtype_name((cr_dtype)b));
            CHECK(cr_promote(p, (cr_dtype)a) == p, "%s, %s -> %s is not closed", cr_dtype_name((cr_dtype)a),
                  cr_dtype_name((cr_dtype)b), cr_dtype_name(p));
        }
    CHECK(cr_promote(CR_F16, CR_BF16) == CR_F32 && cr_promote(CR_U8, CR_I8) == CR_I16 &&
              cr_promote(CR_I64, CR_F16) == CR_F16,
          "table");
}

TEST(shapes) {
    int64_t huge[2] = {INT64_MAX / 4, 8}, negative[2] = {2, -1}, zero[3] = {0, INT64_MAX, INT64_MAX}, n;
    FAILS(CR_BAD_VALUE, "too many", cr_shape_check("t", 2, huge, CR_F32, &n));
    FAILS(CR_BAD_VALUE, "(2, -1)", cr_shape_check("t", 2, negative, CR_F32, &n));
    FAILS(CR_BAD_VALUE, "9 axes", cr_shape_check("t", 9, zero, CR_F32, &n));
    FAILS(CR_BAD_TYPE, "not a dtype", cr_shape_check("t", 2, zero, (cr_dtype)77, &n));
    FAILS(CR_BAD_VALUE, "too many", cr_shape_check("t", 3, zero, CR_F32, &n));
    FAILS(CR_BAD_INDEX, "-3 to 2", cr_axis("t", 3, 3));
    CHECK(cr_axis("t", -1, 3) == 2 && cr_axis("t", 0, 0) == 0, "axes");
    uint32_t mask;
    FAILS(CR_BAD_VALUE, "more than once", cr_axes_mask("t", CR_LIST(1, -2), 3, &mask));
    int64_t a[3] = {5, 1, 7}, b[2] = {3, 1}, out[8];
    int ndim;
    OK(cr_broadcast("t", 3, a, 2, b, &ndim, out));
    CHECK(ndim == 3 && out[0] == 5 && out[1] == 3 && out[2] == 7, "broadcast gave %s", cr_shape_text(ndim, out).s);
    FAILS(CR_BAD_VALUE, "(5, 1, 7) and (3, 2)", cr_broadcast("t", 3, a, 2, (int64_t[]){3, 2}, &ndim, out));
    CHECK(!strcmp(cr_shape_text(1, a).s, "(5,)") && !strcmp(cr_shape_text(0, a).s, "()"), "shape text");
}

/* Known answers of the reference implementation (Random123, kat_vectors: philox4x32-10, zero key and counter). */
TEST(philox) {
    uint32_t x[4];
    cr_philox(0, 0, x);
    CHECK(x[0] == 0x6627e8d5u && x[1] == 0xe169c58du && x[2] == 0xbc57ac4cu && x[3] == 0x9b00dbd8u,
          "%08x %08x %08x %08x", x[0], x[1], x[2], x[3]);
}

TEST(generators_and_tapes) {
    cr_generator *g = cr_generator_new(5);
    uint64_t seed, first = cr_generator_take(g, 10, &seed), second = cr_generator_take(g, 3, &seed), counter;
    cr_generator_get(g, NULL, &counter);
    CHECK(first == 0 && second == 10 && counter == 13 && seed == 5, "counters %llu %llu %llu",
          (unsigned long long)first, (unsigned long long)second, (unsigned long long)counter);
    cr_tape *t = cr_tape_new();
    cr_tape_use before = cr_tape_begin(t, false);
    uint64_t a = cr_generator_take(g, 4, &seed);
    cr_tape_end(before);
    cr_generator_set(g, 9, 1000);
    before = cr_tape_begin(t, true);
    uint64_t b = cr_generator_take(g, 4, &seed);
    cr_tape_end(before);
    cr_generator_get(g, NULL, &counter);
    CHECK(a == b && seed == 5 && counter == 1000, "a replay gave counter %llu of seed %llu", (unsigned long long)b,
          (unsigned long long)seed);
    cr_tape_free(t);
    cr_generator_free(g);
}

static void count(void *ctx) { ++*(int *)ctx; }

TEST(borrowed_memory) {
    int done = 0;
    float x[6] = {0, 1, 2, 3, 4, 5};
    FAILS(CR_BAD_VALUE, "aligned", cr_borrow((char *)x + 1, CR_LIST(2), CR_F32, NULL, NULL));
    FAILS(CR_BAD_VALUE, "NULL", cr_borrow(NULL, CR_LIST(2), CR_F32, NULL, NULL));
    cr_scope_begin();
    cr_tensor *t = cr_borrow(x, CR_LIST(2, 3), CR_F32, count, &done);
    CHECK(cr_item(cr_sum(t, CR_ALL, false)) == 15, "sum");
    cr_fill_(t, 2);
    CHECK(x[5] == 2, "writes go to the caller's memory");
    cr_tensor *view = cr_retain(cr_slice(t, 1, 0, 2, 1));
    cr_scope_end();
    CHECK(done == 0, "done came while a view lives");
    cr_drop(view);
    CHECK(done == 1, "done came %d times", done);
}

TEST(borrowed_memory_with_strides) {
    int done = 0;
    float x[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    FAILS(CR_BAD_VALUE, "negative stride in (-1,)",
          cr_borrow_strided(x + 3, CR_LIST(2), (int64_t[]){-1}, CR_F32, NULL, NULL));
    FAILS(CR_BAD_VALUE, "beyond memory",
          cr_borrow_strided(x, CR_LIST(3, 2), (int64_t[]){INT64_MAX / 2, 1}, CR_F32, NULL, NULL));
    cr_scope_begin();
    /* the stride of one element does not matter */
    cr_tensor *t = cr_borrow_strided(x + 1, CR_LIST(2, 1, 5), (int64_t[]){1, -7, 2}, CR_F32, count, &done);
    CHECK(cr_item(cr_sum(t, CR_ALL, false)) == 1 + 3 + 5 + 7 + 9 + 2 + 4 + 6 + 8 + 10, "sum %g",
          cr_item(cr_sum(t, CR_ALL, false)));
    cr_fill_(t, 2);
    CHECK(x[0] == 0 && x[1] == 2 && x[10] == 2 && x[11] == 11, "writes go to the elements that the strides reach");
    CHECK(cr_is_contiguous(cr_borrow_strided(x, CR_LIST(2, 1, 3), (int64_t[]){3, 99, 1}, CR_F32, NULL, NULL)),
          "dense strides");
    CHECK(cr_numel(cr_borrow_strided(NULL, CR_LIST(0, 3), (int64_t[]){5, 7}, CR_F32, NULL, NULL)) == 0, "no elements");
    cr_scope_end();
    CHECK(done == 1, "done came %d times", done);
}

TEST(storage_views) {
    cr_scope_begin();
    cr_tensor *x = cr_arange(0, 12, 1, CR_F32, cr_cpu()), *part = cr_slice(x, 0, 3, 9, 1);
    CHECK(cr_storage_id(part) == cr_storage_id(x) && cr_storage_bytes(part) == 48, "a view shares %lld bytes",
          (long long)cr_storage_bytes(part));
    CHECK(cr_storage_id(cr_clone(x)) != cr_storage_id(x), "a copy has its own memory");
    cr_tensor *y = cr_storage_view(part, CR_F32, CR_LIST(2, 3), (int64_t[]){1, 4}, 2);      /* 2 6 10, 3 7 11 */
    CHECK(cr_item(cr_sum(y, CR_ALL, false)) == 39 && cr_storage_offset(y) == 2, "sum %g",
          cr_item(cr_sum(y, CR_ALL, false)));
    cr_fill_(y, 1);
    CHECK(cr_item(cr_sum(x, CR_ALL, false)) == 66 - 39 + 6, "writes go to x");
    cr_tensor *bytes = cr_storage_view(x, CR_U8, CR_LIST(48), (int64_t[]){1}, 0);
    CHECK(cr_item(cr_sum(cr_slice(bytes, 0, 4, 8, 1), CR_ALL, false)) == 0x80 + 0x3f, "1.0f as bytes");
    CHECK(cr_numel(cr_storage_view(x, CR_F32, CR_LIST(0, 3), (int64_t[]){9, 9}, 12)) == 0, "no elements at the end");
    CHECK(cr_item(cr_storage_view(x, CR_F32, 0, NULL, NULL, 5)) == 5, "one element");
    static const struct { int64_t size, stride, offset; } bad[] = {
        {13, 1, 0}, {1, 1, 12}, {1, 1, -1}, {3, 6, 0}, {2, INT64_MAX, 0}, {0, 1, 13}, {1, 1, INT64_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(CR_BAD_VALUE, "exceeds a storage of 12",
              cr_storage_view(x, CR_F32, CR_LIST(bad[i].size), &bad[i].stride, bad[i].offset));
    FAILS(CR_BAD_VALUE, "negative stride in (-1,)", cr_storage_view(x, CR_F32, CR_LIST(2), (int64_t[]){-1}, 5));
    FAILS(CR_BAD_VALUE, "CR_NONE", cr_storage_view(CR_NONE, CR_F32, CR_LIST(2), (int64_t[]){1}, 0));
    FAILS(CR_BAD_VALUE, "the strides", cr_storage_view(x, CR_F32, CR_LIST(2), NULL, 0));
    cr_scope_end();
}

TEST(views_of_other_dtypes) {
    static const double v[] = {1, 2, 3, 4, 5, 6};
    for (int d = 0; d < 2; d++) {
        const cr_device *dev = d ? cr_ref() : cr_cpu();
        cr_scope_begin();
        cr_tensor *x = cr_requires_grad_(cr_to(cr_from(v, CR_LIST(2, 3), CR_F64, dev), CR_F32, dev), true);
        cr_tensor *bits = cr_view_dtype(x, CR_I32), *bytes = cr_view_dtype(x, CR_U8);
        CHECK(cr_item_int(cr_select(cr_select(bits, 0, 0), 0, 0)) == 0x3f800000, "the bits of 1.0f");
        CHECK(!cr_requires_grad(bits) && cr_storage_id(bits) == cr_storage_id(x), "a view outside the graph");
        CHECK(cr_size(bytes, 0) == 2 && cr_size(bytes, 1) == 12, "%lld columns of bytes", (long long)cr_size(bytes, 1));
        cr_tensor *column = cr_slice(bits, 1, 1, 2, 1), *back = cr_view_dtype(cr_slice(bytes, 1, 4, 12, 1), CR_F32);
        CHECK(cr_item(cr_sum(back, CR_ALL, false)) == 2 + 3 + 5 + 6, "bytes 4 to 11 of each row as floats");
        CHECK(cr_numel(cr_view_dtype(column, CR_I16)) == 4, "an axis of one needs no stride of 1");
        FAILS(CR_BAD_VALUE, "[view] the stride of the last axis must be 1 to view float32 as uint8: 3",
              cr_view_dtype(cr_transpose(x, 0, 1), CR_U8));
        FAILS(CR_BAD_VALUE, "[view] the stride of axis 0 must be a multiple of 2 to view float32 as float64: 3",
              cr_view_dtype(x, CR_F64));
        FAILS(CR_BAD_VALUE, "[view] the last axis and the offset must be multiples of 4 to view uint8 as float32: 8, 2",
              cr_view_dtype(cr_slice(bytes, 1, 2, 10, 1), CR_F32));
        FAILS(CR_BAD_VALUE, "[view] a float32 without axes", cr_view_dtype(cr_ones(0, NULL, CR_F32, dev), CR_U8));
        FAILS(CR_BAD_TYPE, "[view] there is no dtype 99", cr_view_dtype(x, (cr_dtype)99));
        cr_scope_end();
    }
    _Alignas(8) static char memory[16];
    cr_scope_begin();
    cr_tensor *odd = cr_borrow(memory + 1, CR_LIST(8), CR_U8, NULL, NULL);
    FAILS(CR_BAD_VALUE, "[view] the memory is not aligned to the 4 bytes of float32", cr_view_dtype(odd, CR_F32));
    cr_scope_end();
}

TEST(texts_grow) {
    cr_out o = {0};
    char want[5000] = "";
    size_t n = 0;
    for (int i = 0; i < 900; i++) {
        cr_out_format(&o, "%d,", i);
        n += (size_t)sprintf(want + n, "%d,", i);
        CHECK(o.bytes == n && o.bytes < o.room && !strcmp(o.text, want), "text %d: %zu bytes", i, o.bytes);
    }
    for (size_t bytes = 0; bytes < 4900; bytes += 97) {     /* longer than all room so far, and shorter */
        cr_out one = {0};
        cr_out_format(&one, "%.*s%c", (int)bytes, "", 'x');
        cr_out_put(&one, want, bytes < n ? bytes : n);
        cr_out_format(&one, "<%s>", want);
        CHECK(!strcmp(one.text + one.bytes - n - 1, strcat(strcpy((char[5001]){0}, want), ">")), "end of %zu", bytes);
        cr_out_free(&one);
    }
    cr_out_put(&o, NULL, 0);
    o.failed = true;
    cr_out_put(&o, "more", 4);
    cr_out_format(&o, "more");
    CHECK(o.bytes == n && !strcmp(o.text, want), "a text that failed changed");
    cr_out_free(&o);
    CHECK(!o.text && !o.failed, "not empty");
}

TEST(arrays_grow) {
    int *a = NULL;
    int64_t room = 0;
    for (int i = 0; i < 1000; i++) {
        const int64_t before = room;
        CHECK(cr_grow(&a, i + 1, &room, sizeof *a), "no memory");
        CHECK(room == before || (room > i && room >= 2 * before), "room %lld after %lld", (long long)room,
              (long long)before);
        a[i] = i;
    }
    for (int i = 0; i < 1000; i++) CHECK(a[i] == i, "element %d is %d", i, a[i]);
    const int *was = a;
    const int64_t much[] = {INT64_MAX, INT64_MAX / 2, (int64_t)(SIZE_MAX / sizeof *a) + 1};
    for (int i = 0; i < 3; i++) {
        const int64_t before = room;
        const bool grown = cr_grow(&a, much[i], &room, sizeof *a);
        CHECK(!grown && a == was && room == before, "%lld elements", (long long)much[i]);
    }
    free(a);
}

/* 600 keys of which many share a home, against an array, with and without the caller's first slots. */
TEST(hash_table) {
    enum { KEYS = 600 };
    for (int few = 0; few < 2; few++) {
        cr_table_slot first[CR_TABLE_FEW] = {{0}};
        cr_table t = {.few = few ? first : NULL};
        uint64_t want[KEYS] = {0}, random = 88172645463325252u;
        size_t n = 0;
        CHECK(!cr_table_find(&t, 1) && !cr_table_take(&t, 1), "an empty table has a key");
        for (int step = 0; step < 20000; step++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            const int i = (int)(random % KEYS), most = step < 10000 ? 6 : 4;      /* first more come than go */
            const uint64_t key = i % 2 ? (uint64_t)i : (uint64_t)i << 40;         /* even ones share homes */
            if (!i) continue;
            if (random >> 32 & 1 && (int)(random >> 40 & 7) < most) {
                uint64_t *value = cr_table_add(&t, key);
                REQUIRE(value, "no memory");
                CHECK(*value == want[i], "key %d: %llu, wanted %llu", i, (unsigned long long)*value,
                      (unsigned long long)want[i]);
                n += !want[i];
                *value = want[i] = random >> 1 | 1;
            } else {
                const uint64_t *value = cr_table_find(&t, key), found = value ? *value : 0;
                const uint64_t taken = cr_table_take(&t, key);
                CHECK(found == want[i] && taken == want[i], "key %d: %llu and %llu, wanted %llu", i,
                      (unsigned long long)found, (unsigned long long)taken, (unsigned long long)want[i]);
                n -= want[i] != 0;
                want[i] = 0;
            }
            CHECK(t.n == n, "%zu keys, wanted %zu", t.n, n);
        }
        cr_table_free(&t);
        CHECK(!t.at && !t.n, "not empty");
    }
}

TEST(dtypes_have_names) {
    CHECK(!strcmp(cr_dtype_name(CR_BF16), "bfloat16") && cr_dtype_size(CR_BF16) == 2 &&
              !strcmp(cr_dtype_name((cr_dtype)99), "not a dtype"),
          "names");
    const char *name, *doc;
    int n = 0;
    while (cr_switch_at(n, &name, &doc, NULL)) { CHECK(!strncmp(name, "CHAINRULE_", 10) && *doc, "switch %d", n); n++; }
    CHECK(n >= 4, "%d switches", n);
}

/* Whether a call comes too late depends on earlier calls, so this runs in a process of its own. */
static const char *switch_named(const char *wanted) {
    const char *name, *value;
    for (int i = 0; cr_switch_at(i, &name, NULL, &value); i++)
        if (!strcmp(name, wanted)) return value ? value : "(none)";
    return "(no such switch)";
}

static void switches_of_a_fresh_process(void) {
    FAILS(CR_BAD_VALUE, "[switch_set] no switch 'SPEED'; there are: DEVICE, NUM_THREADS, ISA",
          cr_switch_set("SPEED", "11"));
    FAILS(CR_BAD_VALUE, "NULL", cr_switch_set(NULL, "11"));
    CHECK(!strcmp(switch_named("CHAINRULE_NUM_THREADS"), "3") && cr_num_threads() == 3, "from the environment: %s",
          switch_named("CHAINRULE_NUM_THREADS"));
    OK(cr_switch_set("NUM_THREADS", "5"));
    CHECK(cr_num_threads() == 5 && !strcmp(switch_named("CHAINRULE_NUM_THREADS"), "5"), "%d threads", cr_num_threads());
    FAILS(CR_BAD_VALUE, "at least 1, not '0'", cr_switch_set("CHAINRULE_NUM_THREADS", "0"));
    FAILS(CR_BAD_VALUE, "not '2x'", cr_switch_set("CHAINRULE_NUM_THREADS", "2x"));
    CHECK(cr_num_threads() == 5, "a refused value changed it to %d", cr_num_threads());
    OK(cr_switch_set("CHAINRULE_NUM_THREADS", NULL));
    CHECK(cr_num_threads() == 3, "back to the environment's: %d", cr_num_threads());
    OK(cr_switch_set("DEVICE", "ref"));
    CHECK(cr_default_device() == cr_ref(), "the default device: %s", cr_device_name(cr_default_device()));
    OK(cr_switch_set("DEVICE", "auto"));
    CHECK(cr_default_device() == cr_device_find("auto"), "the default device: %s", cr_device_name(cr_default_device()));
    OK(cr_set_default_device(cr_cpu()));
    OK(cr_switch_set("DEVICE", "ref"));
    CHECK(cr_default_device() == cr_ref(), "the later one holds: %s", cr_device_name(cr_default_device()));
    FAILS(CR_BAD_VALUE, "no device 'moon' here", cr_switch_set("DEVICE", "moon"));
    FAILS(CR_BAD_VALUE, "v2, v3 or v4, not 'v9'", cr_switch_set("ISA", "v9"));
#if defined(__x86_64__)
    OK(cr_switch_set("ISA", "v2"));
    CHECK(strstr(cr_device_info(cr_cpu()), "x86-64-v2"), "info: %s", cr_device_info(cr_cpu()));
#endif
    cr_release(cr_ones(CR_LIST(2), CR_F32, cr_cpu()));
    FAILS(CR_RUNTIME, "too late", cr_switch_set("ISA", "v3"));
    OK(cr_switch_set("ONEDNN", "off"));
    CHECK(strstr(cr_device_info(cr_cpu()), "switched off"), "info: %s", cr_device_info(cr_cpu()));
}

TEST(switches_set_in_the_process) {
    if (getenv("TEST_CORE_CHILD")) { switches_of_a_fresh_process(); return; }
    NEEDS_ITSELF();
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        setenv("TEST_CORE_CHILD", "1", 1);
        setenv("CHAINRULE_NUM_THREADS", "3", 1);
        unsetenv("CHAINRULE_DEVICE");
        execl("/proc/self/exe", "test_core", "switches_set_in_the_process", (char *)NULL);
        _exit(98);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed: %d",
          status);
}
