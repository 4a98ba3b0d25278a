// cxx_header.cpp - the header from C++: it compiles without a warning, its lists work, and what it declares links.
#include <chainrule.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

static int failures;

static void check(bool ok, const char *what) {
    if (ok) return;
    failures++;
    std::printf("  failed: %s (%s)\n", what, cr_error() ? cr_error() : "no message");
}

static int64_t product(int n, const int64_t *list) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= list[i];
    return p;
}

static cr_tensor *cube(int, const cr_tensor *const *in, void *) { return cr_mul(cr_mul(in[0], in[0]), in[0]); }

int main() {
    check(std::strcmp(cr_version(), CR_VERSION) == 0, "the header's version is the library's");
    const int64_t five = static_cast<int64_t>(std::strlen("abcde"));             // no constant expression
    check(product(CR_LIST(2, 3, five)) == 30, "CR_LIST(2, 3, five)");
    check(product(CR_LIST(7)) == 7, "CR_LIST(7)");
    check(product(CR_ALL) == 1, "CR_ALL");
    int64_t next = 2;
    check(product(CR_LIST(next++, 5)) == 10 && next == 3, "CR_LIST evaluates each argument once");

    cr_scope_begin();
    const std::vector<float> values = {1, -2, 3, 0.5F, 4, -1};
    cr_tensor *x = cr_requires_grad_(cr_from(values.data(), CR_LIST(2, 3), CR_F32, cr_cpu()), true);
    check(cr_ndim(x) == 2 && cr_size(x, 0) == 2 && cr_size(x, -1) == 3, "the shape of x");
    cr_tensor *y = cr_sum(cr_tanh(x), CR_ALL, false);
    check(cr_backward(y, CR_NONE, nullptr) == CR_OK, "backward");
    std::vector<double> dx(values.size());
    check(cr_read(cr_grad(x), CR_F64, dx.data(), dx.size() * sizeof dx[0]) == CR_OK, "read");
    for (std::size_t i = 0; i < values.size(); i++) {
        const double t = std::tanh(static_cast<double>(values[i]));
        check(std::fabs(dx[i] - (1 - t * t)) < 1e-6, "d tanh(x) = 1 - tanh(x)^2");
    }

    cr_tensor *z = cr_requires_grad_(cr_full(CR_LIST(2), 1.5, CR_F64, cr_cpu()), true);
    const cr_tensor *const in[] = {z};
    check(cr_gradcheck(cube, nullptr, 1, in, nullptr) == CR_OK, "gradcheck of a C++ function");

    check(cr_matmul(x, x) == nullptr && cr_error_status() == CR_BAD_VALUE, "a bad product is refused");
    check(cr_error() != nullptr && std::strstr(cr_error(), "matmul") != nullptr, "its message names the op");
    cr_error_clear();
    cr_scope_end();
    std::printf("result: %d passed, %d failed, 0 skipped\n", failures ? 0 : 1, failures ? 1 : 0);
    return failures != 0;
}
