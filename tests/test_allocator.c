/* test_allocator.c - memory of tensors from a program's own functions. */
#include "test.h"

#include <stdatomic.h>

static _Atomic int64_t taken, given;
static _Atomic bool refuses;

static void *take(size_t bytes, size_t alignment, void *ctx) {
    if (refuses) return NULL;
    CHECK(ctx == &taken, "the context is handed on");
    char *p = malloc(bytes + alignment + sizeof p), *at;
    if (!p) return NULL;
    at = p + sizeof p;
    at += (alignment - (uintptr_t)at % alignment) % alignment;
    memcpy(at - sizeof p, &p, sizeof p);
    taken += (int64_t)bytes;
    return at;
}

static void give(void *p, size_t bytes, void *ctx) {
    char *whole;
    (void)ctx;
    memcpy(&whole, (char *)p - sizeof whole, sizeof whole);
    given += (int64_t)bytes;
    free(whole);
}

/* First in this program: before any tensor. */
TEST(allocator) {
    const cr_allocator mine = {take, give, &taken}, half = {take, NULL, NULL};
    CHECK(cr_set_allocator(&half) == CR_BAD_VALUE, "take without give is refused");
    cr_error_clear();
    CHECK(cr_set_allocator(&mine) == CR_OK, "%s", cr_error());
    cr_scope_begin();
    for (int64_t n = 1; n < 3 << 20; n = 3 * n + 1) {
        cr_tensor *x = cr_ones(CR_LIST(n), CR_F32, cr_cpu()), *y = cr_sum(cr_add(x, x), CR_ALL, false);
        CHECK(cr_item(y) == 2 * (double)n, "%g for %lld elements", cr_item(y), (long long)n);
        CHECK((uintptr_t)cr_data(x) % 64 == 0, "%lld elements at %p", (long long)n, cr_data(x));
    }
    CHECK(taken > 0, "no memory was taken");
    CHECK(cr_set_allocator(NULL) == CR_RUNTIME, "memory is held");
    cr_error_clear();
    refuses = true;
    CHECK(!cr_ones(CR_LIST(1 << 26), CR_F32, cr_cpu()) && cr_error_status() == CR_NO_MEMORY, "%s", cr_error());
    cr_error_clear();
    refuses = false;
    cr_scope_end();
    cr_empty_cache(cr_cpu());
    CHECK(given > 0 && given <= taken, "%lld of %lld bytes given", (long long)given, (long long)taken);
}
