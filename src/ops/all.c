/* all.c - the list of structured ops, for tests. */
#include "compose.h"

#define ADDRESS_OF_OP(name) &cr_op_##name,
const cr_op *const cr_ops_all[] = {CR_STRUCTURED_OPS(ADDRESS_OF_OP) NULL};
