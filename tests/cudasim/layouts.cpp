/* layouts.cpp - the layouts of hopper.h (the simulator), of hopper.cuh and fragments.cuh (the kernels) against the
 * layout algebra of CUTLASS: check_hopper.py compiles it for the host, where NVIDIA's headers are. */
#include "hopper.h"

#include <cstdio>
#include <cute/arch/mma_sm90.hpp>
#include <cute/atom/mma_traits_sm80.hpp>
#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include <cute/tensor.hpp>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
#define D inline
#include "../../src/dev/cuda/fragments.cuh"
#include "../../src/dev/cuda/hopper.cuh"

using namespace cute;
static int passed, failed;

static void check(bool fine, const char *what, int a, int b, long long got, long long wanted) {
    passed += fine, failed += !fine;
    if (!fine && failed < 20) std::printf("%s at (%d, %d): %lld, wanted %lld\n", what, a, b, got, wanted);
}

/* The offset in bytes in a tile of half floats that begins at 0. */
template <class Layout> static unsigned offset(const Layout &layout, int a, int b) {
    return 2 * (unsigned)as_position_independent_swizzle_layout(layout)(a, b);
}

/* A product's operand: ROWS of i and 16 of k, out of a tile of i and 64 k (K-major) by CUTLASS. */
template <class Atom, int ROWS> static void rows_of(const char *what, int type) {
    const auto tile = tile_to_shape(Atom{}, Shape<Int<ROWS>, _64>{});
    const int line = (int)hopper_line((unsigned)type);
    for (int step = 0; step < line / 32; step++) {
        const u64 d = (u64)(2 * step) | 1ull << 16 | (u64)(8 * line / 16) << 32 | (u64)type << 62;
        for (int i = 0; i < ROWS; i++)
            for (int k = 0; k < 16; k++) {
                const unsigned got = hopper_operand(d, 0, (unsigned)i, (unsigned)k),
                               want = offset(tile, i, 16 * step + k);
                check(got == want, what, i, 16 * step + k, got, want);
            }
    }
}

template <class Atom, int COLUMNS> static void columns_of(const char *what, int type) {
    const auto tile = tile_to_shape(Atom{}, Shape<Int<COLUMNS>, _64>{}, Step<_2, _1>{});
    const int line = (int)hopper_line((unsigned)type), panel = 64 * line;
    for (int step = 0; step < 4; step++) {
        const u64 d = (u64)(line * step) | (u64)(panel / 16) << 16 | (u64)(8 * line / 16) << 32 | (u64)type << 62;
        for (int i = 0; i < COLUMNS; i++)
            for (int k = 0; k < 16; k++) {
                const unsigned got = hopper_operand(d, 1, (unsigned)i, (unsigned)k),
                               want = offset(tile, i, 16 * step + k);
                check(got == want, what, i, 16 * step + k, got, want);
            }
    }
}

/* Fragments: thread and element -> row + 64 column. */
template <class Layout> static void fragments(const char *what, int elements) {
    for (int t = 0; t < 128; t++)
        for (int e = 0; e < elements; e++) {
            const hopper_place p = hopper_fragment(t, e);
            const int want = (int)Layout{}(t, e);
            check(p.row + 64 * p.column == want, what, t, e, p.row + 64 * p.column, want);
        }
}

/* Fragments of one product of a warp, each word of EACH elements: thread and element -> row + 16 k, column + 8 k, row +
 * 16 column. */
template <class Traits, int EACH> static void warp_fragments(const char *what) {
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 8 * EACH; k++) {
            const fragment a = fragment_a(i, k / EACH);
            const int got = (int)typename Traits::ALayout{}(a.lane, a.word * EACH + k % EACH);
            check(got == i + 16 * k, what, i, k, got, i + 16 * k);
        }
    for (int j = 0; j < 8; j++)
        for (int k = 0; k < 8 * EACH; k++) {
            const fragment b = fragment_b(j, k / EACH);
            const int got = (int)typename Traits::BLayout{}(b.lane, b.word * EACH + k % EACH);
            check(got == j + 8 * k, what, j, k, got, j + 8 * k);
        }
    for (int t = 0; t < 32; t++)
        for (int e = 0; e < 4; e++) {
            const int got = fragment_row(t, e) + 16 * fragment_column(t, e);
            check(got == (int)typename Traits::CLayout{}(t, e), what, t, e, got, (int)typename Traits::CLayout{}(t, e));
        }
}

/* The descriptor of step 0 of a tile; CUTLASS does not know a shared address on a host: 0. */
template <GMMA::Major MAJOR, class Layout> static void describe(const char *what, const Layout &layout, u64 ours) {
    const auto tile = make_tensor(make_smem_ptr((bfloat16_t *)nullptr), layout);
    const u64 theirs = (u64)GMMA::make_gmma_desc<MAJOR>(local_tile(tile, Shape<_128, _16>{}, make_coord(0, 0)));
    check(ours == theirs, what, 0, 0, (long long)ours, (long long)theirs);
}

int main() {
    typedef bfloat16_t T;
    rows_of<GMMA::Layout_K_SW128_Atom<T>, 128>("K-major, 128 bytes", HOPPER_SWIZZLE_128);
    rows_of<GMMA::Layout_K_SW64_Atom<T>, 64>("K-major, 64 bytes", HOPPER_SWIZZLE_64);
    rows_of<GMMA::Layout_K_SW32_Atom<T>, 64>("K-major, 32 bytes", HOPPER_SWIZZLE_32);
    columns_of<GMMA::Layout_MN_SW128_Atom<T>, 128>("MN-major, 128 bytes", HOPPER_SWIZZLE_128);
    columns_of<GMMA::Layout_MN_SW64_Atom<T>, 64>("MN-major, 64 bytes", HOPPER_SWIZZLE_64);
    columns_of<GMMA::Layout_MN_SW32_Atom<T>, 64>("MN-major, 32 bytes", HOPPER_SWIZZLE_32);
    fragments<GMMA::CLayout_64x64>("results of 64 columns", 32);
    fragments<GMMA::CLayout_64x128>("results of 128 columns", 64);
    fragments<GMMA::ALayout_64x16>("rows in registers", 8);
    warp_fragments<MMA_Traits<SM80_16x8x16_F32F16F16F32_TN>, 2>("m16n8k16, f16");
    warp_fragments<MMA_Traits<SM80_16x8x16_F32BF16BF16F32_TN>, 2>("m16n8k16, bf16");
    warp_fragments<MMA_Traits<SM80_16x8x8_F32TF32TF32F32_TN>, 1>("m16n8k8, TF32");

    const auto rows = tile_to_shape(GMMA::Layout_K_SW128_Atom<T>{}, Shape<_128, _64>{});
    describe<GMMA::Major::K>("by_rows", rows, by_rows(0));
    const auto columns = tile_to_shape(GMMA::Layout_MN_SW128_Atom<T>{}, Shape<_128, _64>{}, Step<_2, _1>{});
    describe<GMMA::Major::MN>("by_columns", columns, by_columns(0, 64 * LINE));
    for (int row = 0; row < 128; row++)
        for (int column = 0; column < 64; column += 2)
            check(swizzled((u32)row, (u32)column) == offset(rows, row, column), "swizzled", row, column,
                  swizzled((u32)row, (u32)column), offset(rows, row, column));
    std::printf("result: %d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
