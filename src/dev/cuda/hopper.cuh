/* hopper.cuh - the instructions of sm_90a that hopper.cu uses: barriers in shared memory that count
 * arrivals and bytes, tensor copies (TMA), products of a warpgroup (wgmma), named barriers.  In the
 * simulator each is a call of tests/cudasim/hopper.c.  What comes before them is compared with CUTLASS
 * (tests/cudasim/layouts.cpp).
 *
 * A tile in shared memory is made of panels: rows of 64 elements (128 bytes), whose 16-byte chunks are
 * exchanged by the 128-byte swizzle.  A panel begins at a multiple of 1024 bytes.  Addresses are of
 * shared memory. */

constexpr int LINE = 128, GROUP = 8 * LINE;         /* bytes of a row of a panel, and of 8 rows */

/* The descriptor of an operand of wgmma (PTX manual, "Matrix Descriptor Format"): bits 0 to 13 the
 * address, 16 to 29 the leading offset, 32 to 45 the stride, all over 16; 62 and 63: 1, the 128-byte
 * swizzle.  Its axis of 16 is summed.  Either that axis is contiguous (by_rows: then a panel has 4
 * steps of 32 bytes), or the other one is (by_columns: steps of 16 rows; panel: bytes between the panels that the
 * contiguous axis takes). */
D u64 descriptor(u32 at, u32 leading, u32 stride) {
    return (u64)(at >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | 1ull << 62;
}
D u64 by_rows(u32 at) { return descriptor(at, 16, GROUP); }
D u64 by_columns(u32 at, u32 panel) { return descriptor(at, panel, GROUP); }

/* The offset in a panel of the 4 bytes at (row, column), column even. */
D u32 swizzled(u32 row, u32 column) { return LINE * row + (column / 8 ^ row % 8) * 16 + column % 8 * 2; }

#ifdef __CUDA_ARCH__
D u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

/* -- barriers: a phase is complete after `count` arrivals and all bytes that it expects */
D void barrier_init(u32 at, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}
/* before a barrier of the block that lets other threads and the TMA see them */
D void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
D void barrier_expect(u32 at, u32 bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
D void barrier_arrive(u32 at) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(at) : "memory");
}
/* until the phase of this parity, 0 for the first, is complete */
D void barrier_wait(u32 at, u32 parity) {
    asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(at), "r"(parity) : "memory");
}

/* -- the TMA: a box of the tensor, at (column, row, head, batch); outside it is 0 */
D void load_box(u32 to, const tensor_map &from, int column, int row, int head, int batch, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%3, %4, %5, %6}], [%2];" ::"r"(to), "l"(&from), "r"(barrier), "r"(column), "r"(row), "r"(head),
                 "r"(batch) : "memory");
}

/* -- named barriers (1 to 15) of so many threads: synchronize waits, arrive does not */
D void synchronize(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
D void arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

/* -- registers of each thread of a warpgroup */
template <int N> D void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> D void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }

/* -- a word for products: they see it after publish() and a barrier */
D void put(u32 at, u32 word) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(word) : "memory"); }
D void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* -- products: between begin and commit; wait: until all but the last N groups are complete.  The
 * results of a group are read after finished(). */
D void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
D void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> D void wait_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
template <int N> D void finished(f32 (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

#define WORDS4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WORDS32(i) \
    WORDS4(i), WORDS4(i + 4), WORDS4(i + 8), WORDS4(i + 12), WORDS4(i + 16), WORDS4(i + 20), WORDS4(i + 24), \
        WORDS4(i + 28)
#define WORDS64 WORDS32(0), WORDS32(32)
#define NAMES32 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES64 \
    NAMES32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA(n, type) "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type " "
/* a in registers, or in shared memory; the names of the operands after d */
#define BY_WORDS(n, type, names, words, a0, a1, a2, a3, b_at, adds, columns) \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " adds ", 0;\n" WGMMA(n, type) names "}, {" a0 ", " a1 ", " a2 \
                 ", " a3 "}, " b_at ", add, 1, 1, " columns ";\n}" \
                 : words \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add), "n"(B_COLUMNS))
#define BY_ADDRESS(n, type, names, words, a_at, b_at, adds, a_columns, columns) \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " adds ", 0;\n" WGMMA(n, type) names "}, " a_at ", " b_at \
                 ", add, 1, 1, " a_columns ", " columns ";\n}" \
                 : words \
                 : "l"(a), "l"(b), "r"((int)add), "n"(A_COLUMNS), "n"(B_COLUMNS))
#define BY_WORDS32(type) BY_WORDS(64, type, NAMES32, WORDS32(0), "%32", "%33", "%34", "%35", "%36", "%37", "%38")
#define BY_WORDS64(type) BY_WORDS(128, type, NAMES64, WORDS64, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
#define BY_ADDRESS32(type) BY_ADDRESS(64, type, NAMES32, WORDS32(0), "%32", "%33", "%34", "%35", "%36")
#define BY_ADDRESS64(type) BY_ADDRESS(128, type, NAMES64, WORDS64, "%64", "%65", "%66", "%67", "%68")
/* d (64, 2 N) = a b, or += if add: one step of 16.  B_COLUMNS, A_COLUMNS: the operand is by_columns. */
template <class F, int B_COLUMNS, int N> D void multiply(f32 (&d)[N], const u32 (&a)[4], u64 b, bool add) {
    static_assert(N == 32 || N == 64, "64 or 128 columns");
    if constexpr (N == 32 && same<F, f16>) BY_WORDS32(f16);
    else if constexpr (N == 32) BY_WORDS32(bf16);
    else if constexpr (same<F, f16>) BY_WORDS64(f16);
    else BY_WORDS64(bf16);
}
template <class F, int A_COLUMNS, int B_COLUMNS, int N> D void multiply(f32 (&d)[N], u64 a, u64 b, bool add) {
    static_assert(N == 32 || N == 64, "64 or 128 columns");
    if constexpr (N == 32 && same<F, f16>) BY_ADDRESS32(f16);
    else if constexpr (N == 32) BY_ADDRESS32(bf16);
    else if constexpr (same<F, f16>) BY_ADDRESS64(f16);
    else BY_ADDRESS64(bf16);
}

D u32 turn_of(const u32 *at) {
    u32 now;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(at) : "memory");
    return now;
}
D void store_turn(u32 *at, u32 turn) {
    __threadfence();
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(turn) : "memory");
}
#elif defined CUDASIM_ARCHITECTURE
D u32 shared_address(const void *p) { return cudasim->hopper->address(p); }
D void barrier_init(u32 at, u32 count) { cudasim->hopper->barrier_init(at, count); }
D void barriers_ready() {}
D void barrier_expect(u32 at, u32 bytes) { cudasim->hopper->barrier_expect(at, bytes); }
D void barrier_arrive(u32 at) { cudasim->hopper->barrier_arrive(at); }
D void barrier_wait(u32 at, u32 parity) { cudasim->hopper->barrier_wait(at, parity); }
D void load_box(u32 to, const tensor_map &from, int column, int row, int head, int batch, u32 barrier) {
    const int position[4] = {column, row, head, batch};
    cudasim->hopper->load(to, &from, position, barrier);
}
D void synchronize(int id, int threads) { cudasim->hopper->named(id, threads, 1); }
D void arrive(int id, int threads) { cudasim->hopper->named(id, threads, 0); }
template <int N> D void take_registers() {}
template <int N> D void give_registers() {}
D void put(u32 at, u32 word) { cudasim->hopper->put(at, word); }
D void publish() { cudasim->hopper->publish(); }
D void begin_products() { cudasim->hopper->fence(); }
D void commit_products() { cudasim->hopper->commit(); }
template <int N> D void wait_products() { cudasim->hopper->wait(N); }
template <int N> D void finished(f32 (&)[N]) {}
template <class F, int B_COLUMNS, int N> D void multiply(f32 (&d)[N], const u32 (&a)[4], u64 b, bool add) {
    const cudasim_product p = {d, a, 0, b, 2 * N, same<F, f16>, add, 0, B_COLUMNS};
    cudasim->hopper->product(&p);
}
template <class F, int A_COLUMNS, int B_COLUMNS, int N> D void multiply(f32 (&d)[N], u64 a, u64 b, bool add) {
    const cudasim_product p = {d, nullptr, a, b, 2 * N, same<F, f16>, add, A_COLUMNS, B_COLUMNS};
    cudasim->hopper->product(&p);
}
D u32 turn_of(const u32 *at) { return *at; }
D void store_turn(u32 *at, u32 turn) { *at = turn; }
#endif

#if defined __CUDA_ARCH__ || defined CUDASIM_ARCHITECTURE
/* -- blocks that take turns: a warpgroup, with a named barrier of its own, waits until *at is `turn`, and
 * sees what the block before it wrote; or ends its turn.  The simulator runs blocks one after another: to wait is an
 * error. */
D void wait_turn(const u32 *at, u32 turn, int id) {
    if (threadIdx.x % 128 == 0)
        while (turn_of(at) != turn) {
#ifndef __CUDA_ARCH__
            __trap();
#endif
        }
    synchronize(id, 128);
}
D void set_turn(u32 *at, u32 turn, int id) {
    synchronize(id, 128);
    if (threadIdx.x % 128 == 0) store_turn(at, turn);
}
#endif
