/* text.c - text that grows, and the names of dtypes in device.cuh. */
#include "gpu.h"

#include <stdarg.h>
#include <stdlib.h>

void cr_cuda_add(cuda_text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = t->failed ? 0 : vsnprintf(t->s ? t->s + t->n : NULL, t->room - t->n, format, args);
    va_end(args);
    if (n >= 0 && t->n + (size_t)n >= t->room && !t->failed) {
        const size_t room = 2 * (t->n + (size_t)n) + 1000;
        char *s = realloc(t->s, room);
        if (s) t->s = s, t->room = room;
        t->failed = !s;
        va_start(args, format);
        if (s) vsnprintf(t->s + t->n, t->room - t->n, format, args);
        va_end(args);
    }
    if (n < 0) t->failed = true;
    if (!t->failed) t->n += (size_t)n;
}

void cr_cuda_free_text(cuda_text *t) {
    free(t->s);
    *t = (cuda_text){0};
}

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
