/* fragments.cuh - which lane of a warp holds what of a product by tensor cores, c (16, 8) += a (16, K) b (K, 8): K is 8
 * words, each of two half floats (mma.m16n8k16) or of one TF32 (m16n8k8).  As in the PTX manual, "Matrix fragments";
 * tests compare with CUTLASS. */
struct fragment { int lane, word; };                /* word: of the lane's four words of a, or two of b */
D fragment fragment_a(int row, int word) { return fragment{row % 8 * 4 + word % 4, row / 8 + word / 4 * 2}; }
D fragment fragment_b(int column, int word) { return fragment{column * 4 + word % 4, word / 4}; }
/* of element e of a lane's four of c */
D int fragment_row(int lane, int e) { return lane / 4 + e / 2 % 2 * 8; }
D int fragment_column(int lane, int e) { return lane % 4 * 2 + e % 2; }
