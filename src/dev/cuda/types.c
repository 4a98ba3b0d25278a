/* types.c - the names of dtypes in device.cuh. */
#include "gpu.h"

const char *cr_cuda_type(cr_dtype dt) {
    static const char *const names[CR_DTYPES] = {
        [CR_BOOL] = "b8",   [CR_U8] = "u8",   [CR_U16] = "u16", [CR_U32] = "u32", [CR_U64] = "u64",
        [CR_I8] = "i8",     [CR_I16] = "i16", [CR_I32] = "i32", [CR_I64] = "i64", [CR_F16] = "f16",
        [CR_BF16] = "bf16", [CR_F32] = "f32", [CR_F64] = "f64"};
    return names[dt];
}

const char *cr_cuda_wide(cr_dtype dt) {
    return dt == CR_BOOL ? "bool" : cr_dtype_is_float(dt) && dt != CR_F64 ? "f32" : cr_cuda_type(dt);
}
