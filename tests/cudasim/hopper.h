/* hopper.h - where Hopper's asynchronous units find elements: the swizzles of shared memory, operands
 * of wgmma by descriptor, and the fragments of its registers.  C and C++, without a library:
 * check_hopper.py compares all of it with CUTLASS. */
#ifndef CUDASIM_HOPPER_H
#define CUDASIM_HOPPER_H

/* The layout type of a wgmma descriptor (bits 62 and 63). */
enum { HOPPER_PLAIN = 0, HOPPER_SWIZZLE_128 = 1, HOPPER_SWIZZLE_64 = 2, HOPPER_SWIZZLE_32 = 3 };

/* An address in shared memory with the 16-byte chunks of its line of 128 bytes exchanged: the bits
 * from 4 on are added, without a carry, to as many bits from 7 on.  bytes: 128, 64 or 32. */
static inline unsigned hopper_swizzled(unsigned address, unsigned bytes) {
    return address ^ ((address >> 7 & (bytes / 16 - 1)) << 4);
}

/* Bytes of a line of the swizzle that a layout type names; 0: no swizzle. */
static inline unsigned hopper_line(unsigned type) { return type ? 256u >> type : 0; }

/* The address of element (i, k), of 2 bytes, of an operand of wgmma: i counts rows of a or columns of
 * b, k < 16 is the axis that is summed.  along_i: i is contiguous (the instruction's transpose flag). */
static inline unsigned hopper_operand(unsigned long long descriptor, int along_i, unsigned i, unsigned k) {
    const unsigned start = (unsigned)(descriptor & 0x3fff) << 4, leading = (unsigned)(descriptor >> 16 & 0x3fff) << 4,
                   stride = (unsigned)(descriptor >> 32 & 0x3fff) << 4,
                   line = hopper_line((unsigned)(descriptor >> 62)), wide = line / 2;
    const unsigned offset = along_i ? i % wide * 2 + i / wide * leading + k % 8 * line + k / 8 * stride
                                    : k * 2 + i % 8 * line + i / 8 * stride;
    return hopper_swizzled(start + offset, line);
}

/* Row and column of element e of the results, and of half float e < 8 of a's rows, in the registers of thread t
 * of a warpgroup. */
typedef struct hopper_place { int row, column; } hopper_place;
static inline hopper_place hopper_fragment(int t, int e) {
    const hopper_place p = {t / 32 * 16 + t % 32 / 4 + e / 2 % 2 * 8, e / 4 * 8 + t % 4 * 2 + e % 2};
    return p;
}

#endif
