/* fuzz_safetensors.c - the header parser on changed files, in memory; what it accepts must keep every
 * promise that loading relies on. */
#include "fuzz.h"

#include "folder.h"
#include "io/safetensors.h"

static void promise(bool kept, const char *what) {
    if (!kept) { printf("accepted, but %s\n", what); abort(); }
}

static void check_header(const cr_st_header *h, const uint8_t *file, size_t bytes) {
    size_t total = 0;
    const size_t room = (size_t)(file + bytes - h->data);
    promise(h->data >= file + 8 && h->data <= file + bytes, "the data starts outside the file");
    for (int64_t i = 0; i < h->count; i++) {
        const cr_st_tensor *t = &h->tensors[i];
        size_t size = cr_dtype_size(t->dtype);
        promise(*t->name && t->ndim >= 0 && t->ndim <= CR_MAX_DIMS, "a tensor has no name or too many axes");
        for (int d = 0; d < t->ndim; d++) size *= (size_t)t->shape[d];
        promise(t->begin <= t->end && t->end <= room && t->end - t->begin == size,
                "a tensor has other bytes than its shape");
        for (int64_t j = 0; j < i; j++) promise(strcmp(t->name, h->tensors[j].name), "a name comes twice");
        total += size;
    }
    promise(total == room, "the tensors do not fill the data");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static unsigned count;
    cr_st_header h;
    const bool good = cr_st_parse("fuzz", "input", data, bytes, &h) == CR_OK;
    fuzz_check(good, "safetensors");
    if (good) check_header(&h, data, bytes);
    cr_st_free(&h);
    if (count++ % (good ? 4 : 16) || (bytes >= 4 && !memcmp(data, "GGUF", 4))) return 0;   /* those: fuzz_gguf.c */
    file_put(folder_path("fuzz.safetensors"), data, bytes);        /* the same through the file, and back */
    cr_params *p = cr_load(folder_path("fuzz.safetensors"), cr_cpu());
    if (!p) { fuzz_check(false, "load"); return 0; }
    promise(good, "only when it is loaded");
    /* writable, and the file does not change */
    for (int64_t i = 0; i < cr_params_count(p); i++) (void)cr_fill_(cr_params_at(p, i), 1);
    if (cr_save(folder_path("again.safetensors"), p, NULL)) { printf("cannot be saved: %s\n", cr_error()); abort(); }
    cr_params_free(p);
    char *text = cr_load_metadata(folder_path("fuzz.safetensors"), "format");
    cr_free(text);
    fuzz_check(true, "metadata");
    return 0;
}

static size_t fuzz_seed(int i, uint8_t *out, size_t room) {
    static const struct { const char *header; size_t data;
    } seeds[] = {{"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"I8\","
                  "\"shape\":[],\"data_offsets\":[24,25]}}",
                  25},
                 {"{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"data_offsets\":[2,10],\"dtype\":\"I64\",\"shape\":[1]"
                  "},\"v\":{\"dtype\":\"BF16\",\"shape\":[1,1],\"data_offsets\":[0,2]}}  ",
                  10},
                 {"{\"empty\":{\"dtype\":\"BOOL\",\"shape\":[0,5],\"data_offsets\":[0,0]},\"m\":{\"dtype\":\"BOOL\","
                  "\"shape\":[3],\"data_offsets\":[0,3]}}",
                  3},
                 {"{}", 0}};
    if (i >= (int)(sizeof seeds / sizeof *seeds)) return 0;
    const size_t n = strlen(seeds[i].header), all = 8 + n + seeds[i].data;
    if (all > room) return 0;
    memset(out, 0, all);
    out[0] = (uint8_t)n;
    memcpy(out + 8, seeds[i].header, n);
    for (size_t k = 0; k < seeds[i].data; k++) out[8 + n + k] = k & 1;
    return all;
}
