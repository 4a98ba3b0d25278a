/* utf8.h - code points and their bytes, as RFC 3629 allows them: no overlong forms, no surrogates,
 * nothing above U+10FFFF. */
#ifndef CR_UTF8_H
#define CR_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes (1 to 4) of the code point at s, of which n bytes are left; 0: not UTF-8. */
static inline int cr_utf8_decode(const unsigned char *s, size_t n, uint32_t *code) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (!n) return 0;
    if (*s < 0x80) { *code = *s; return 1; }
    int bytes = *s >= 0xF0 ? 4 : *s >= 0xE0 ? 3 : 2;
    if (*s < 0xC2 || *s > 0xF4 || (size_t)bytes > n) return 0;
    uint32_t c = *s & (0x7Fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3Fu);
    }
    if (c < least[bytes] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return 0;
    *code = c;
    return bytes;
}

/* Writes the 1 to 4 bytes of a valid code point, returns how many. */
static inline int cr_utf8_encode(uint32_t c, char out[4]) {
    if (c < 0x80) { out[0] = (char)c; return 1; }
    int bytes = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = bytes - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)((0xF0u << (4 - bytes) & 0xF0u) | c);
    return bytes;
}

/* Offset of the first byte that is not UTF-8, or n. */
static inline size_t cr_utf8_valid(const char *s, size_t n) {
    size_t at = 0;
    uint32_t code;
    for (int step; at < n && (step = cr_utf8_decode((const unsigned char *)s + at, n - at, &code));
         at += (size_t)step) {}
    return at;
}

#endif
