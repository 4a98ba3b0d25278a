/* pipeline.h - tokenizers with learned vocabularies, as Hugging Face's tokenizer.json describes them:
 *   normalizers  change the text
 *   added tokens are found in the text, and divide it
 *   splits       divide what is between them into pieces
 *   a model      (BPE, Unigram or WordPiece) turns a piece into ids
 * Other formats are translated into a tokenizer.json when they are loaded (formats.c). */
#ifndef CR_PIPELINE_H
#define CR_PIPELINE_H

#include <chainrule.h>

#include "../core/table.h"
#include "../io/file.h"
#include "../io/json.h"
#include "regex.h"
#include "splits.h"
#include "unicode.h"

#define CR_NO_ID UINT32_MAX
enum { CR_MOST_ID = 1 << 24, CR_STEPS = 16 };

/* ---- small containers */
typedef struct cr_ids { uint32_t *at; int64_t n, room; bool failed; } cr_ids;
bool cr_ids_reserve(cr_ids *ids, int64_t more);
bool cr_ids_put(cr_ids *ids, uint32_t id);
bool cr_ids_append(cr_ids *ids, const uint32_t *from, int64_t n);

/* From strings to ids, and back: open addressing. */
typedef struct cr_words {
    struct { uint32_t at, bytes; } *word;           /* of id; bytes CR_NO_ID: no such token */
    int64_t size;                                   /* largest id + 1 */
    char *text; size_t used;
    uint32_t *slots; uint32_t mask;                 /* id + 1, 0: empty */
} cr_words;
/* size ids, `count` words of `bytes` bytes in all are to come; false: no memory */
bool        cr_words_reserve(cr_words *w, int64_t size, int64_t count, size_t bytes);
/* false: the string has an id already, or the id a string */
bool        cr_words_add(cr_words *w, uint32_t id, const char *s, size_t n);
uint32_t    cr_words_find(const cr_words *w, const char *s, size_t n);        /* CR_NO_ID: none */
const char *cr_words_at(const cr_words *w, uint32_t id, size_t *n);          /* NULL: none */
void        cr_words_free(cr_words *w);

/* ---- models */
typedef enum cr_model_kind { CR_MODEL_BPE, CR_MODEL_UNIGRAM, CR_MODEL_WORDPIECE } cr_model_kind;
typedef struct cr_model {
    cr_model_kind kind;
    cr_words words;                                 /* as the file spells them */
    bool byte_level;                                /* BPE: a piece is bytes, one symbol each, by byte_id */
    bool byte_fallback, fuse_unk, whole_words;      /* whole_words: a piece that is a token is not merged */
    uint32_t unk;                                   /* CR_NO_ID: none */
    bool unk_needed;                                /* an unknown character is a failure where unk is CR_NO_ID */
    uint32_t byte_id[256];                          /* byte-level: its symbol; else its token "<0x0A>" */
    cr_words raw;                                   /* byte-level with whole_words: the bytes of the words */
    /* BPE: merges by their sides, open addressing; left CR_NO_ID: empty.  What a merge of a rank makes. */
    struct cr_merge { uint32_t left, right, rank; } *merges;
    uint32_t merge_slots, *made;
    char prefix[64], suffix[64];                    /* of pieces that continue, and of a piece's last symbol */
    double *score, unk_score;                       /* Unigram */
    /* A trie of the words, level by level from the root, node 0.  Of a node: where its children start, by their bytes;
     * the next one's end them.  The byte that leads to it; the id of the word that ends there. */
    uint32_t nodes, *children; unsigned char *byte; uint32_t *ends;
    int64_t longest;                                /* WordPiece: most characters of a piece */
} cr_model;

/* ---- SentencePiece's pieces, and their types in its files and in GGUF's */
enum { CR_PIECE_NORMAL = 1, CR_PIECE_UNKNOWN, CR_PIECE_CONTROL, CR_PIECE_USER_DEFINED, CR_PIECE_UNUSED, CR_PIECE_BYTE };
typedef struct cr_scored { const char *text; size_t bytes; float score; int type; uint32_t id; } cr_scored;
typedef struct cr_pieces { cr_scored *at; int64_t n, unk; bool bpe, byte_fallback; } cr_pieces;    /* unk -1: none */

/* ---- splits */
typedef enum cr_behaviour {
    CR_SPLIT_REMOVED,
    CR_SPLIT_ISOLATED,
    CR_SPLIT_WITH_PREVIOUS,
    CR_SPLIT_WITH_NEXT,
    CR_SPLIT_CONTIGUOUS
} cr_behaviour;
typedef enum cr_step_kind {
    CR_STEP_SPLIT,                                  /* by an expression or a literal */
    CR_STEP_PREFIX,                                 /* a space before a piece that does not begin with one */
    CR_STEP_METASPACE,                              /* spaces become `literal`, which is also put before the piece */
    CR_STEP_WORDS                                   /* before each `literal` that follows another character: a BPE
                                                     * without merges across it */
} cr_step_kind;
typedef enum cr_prepend { CR_PREPEND_NEVER, CR_PREPEND_FIRST, CR_PREPEND_ALWAYS } cr_prepend;
typedef struct cr_step {
    cr_step_kind kind;
    cr_regex *regex; char literal[64]; size_t literal_bytes;                  /* one of them */
    cr_behaviour behaviour; bool invert;
    cr_prepend prepend;
} cr_step;

/* ---- normalizers */
typedef enum cr_normalizer_kind {
    CR_NORM_REPLACE,
    CR_NORM_PREPEND,
    CR_NORM_LOWER,
    CR_NORM_FORM,
    CR_NORM_STRIP,
    CR_NORM_CHARSMAP,
    CR_NORM_AROUND                                  /* `content` before and after each match */
} cr_normalizer_kind;
typedef struct cr_normalizer {
    cr_normalizer_kind kind;
    cr_regex *regex; char *literal, *content; size_t literal_bytes, content_bytes;
    bool left, right;                               /* ends that are stripped */
    bool longest;                                   /* charsmap: SentencePiece's match instead of tokenizers' */
    cr_form form;
    uint32_t *units; uint32_t n_units;              /* charsmap: a double-array trie, and what its values point into */
    char *blob; size_t blob_bytes;
} cr_normalizer;

/* ---- decoders: how the text of an id depends on its neighbours */
typedef struct cr_decoding {
    /* where the bytes of an id start in blob; the next one's end them */
    uint32_t *at; unsigned char *known;
    cr_out blob;
    char metaspace[8];                              /* not "": removed from the first token */
    char strip[8]; int64_t strip_most;              /* characters that are removed at the start of the text */
    bool fused;                                     /* while it is read: tokens are one text from here on */
    bool joins; char prefix[64];                    /* a space before each token, unless it starts with prefix, which is
                                                     * removed */
    bool cleanup;                                   /* WordPiece's: no space before punctuation */
    char suffix[64];                                /* of the last token of a word: a space, unless the text ends */
} cr_decoding;

typedef struct cr_added {
    char *text; size_t bytes;                       /* normalized, where it is found in normalized text */
    char *name; size_t name_bytes;                  /* as the file has it; may be text itself */
    uint32_t id;
    int64_t order;                                  /* in the file */
    bool special, normalized, lstrip, rstrip, single_word;
} cr_added;

typedef struct cr_workspace cr_workspace;
typedef struct cr_pipeline {
    char *json; size_t json_bytes;                  /* as it is saved; of SentencePiece's up to the vocabulary */
    /* SentencePiece's, by id, else NULL; a Unigram has the scores in its model */
    float *piece_score; unsigned char *piece_type; int64_t piece_unk;
    int n_norms; cr_normalizer norm[CR_STEPS];
    int n_steps; cr_step step[CR_STEPS];
    int64_t n_added; cr_added *added;               /* by first byte, then longest first */
    int64_t first_added[257];                       /* of a first byte; the next one's ends it */
    cr_regex *word;                                 /* a character of a word, where a token is a single word */
    cr_model model;
    cr_decoding decoding;
    cr_ids before, after;                           /* ids around a text */
    int64_t size;
    bool expressions;                               /* are there any that PCRE2 runs? */
    volatile int lock; cr_workspace *idle;          /* workspaces that no thread uses */
} cr_pipeline;

/* pipeline.c */
/* text: a tokenizer.json, which the pipeline takes over (malloc), also on failure.  sentencepiece: as that library
 * reads its own file: merges that give the same token rank as its first one, and the charsmap takes the longest
 * match. */
cr_pipeline *cr_pipeline_new(const char *op, const char *path, char *text, size_t bytes, bool sentencepiece);
/* The same of a text without the vocabulary, which the pieces are; its first `head` bytes lead up to it. */
cr_pipeline *cr_pipeline_of_pieces(const char *op, const char *path, char *text, size_t bytes, size_t head,
                                   const cr_pieces *pieces);
cr_status    cr_pipeline_text(const char *op, const cr_pipeline *p, cr_out *out);       /* the tokenizer.json */
void         cr_pipeline_free(cr_pipeline *p);

/* formats.c: other formats as the text of a tokenizer.json, in `out`.  root: the parsed vocab.json. */
cr_status cr_format_bpe(const char *op, const char *path, const char *vocab, size_t bytes, const cr_json *root,
                        const char *merges, cr_out *out);
/* without the vocabulary, as cr_pipeline_of_pieces wants it; the pieces are allocated, their texts lie in data */
cr_status cr_format_sentencepiece(const char *op, const char *path, const unsigned char *data, size_t bytes,
                                  cr_out *out, size_t *head, cr_pieces *pieces);
bool      cr_format_pieces(const cr_pieces *pieces, cr_out *out);             /* the vocabulary; false: no memory */
/* a token a line; lowers: text in lower case, without accents; vocab.txt: by the files beside it */
cr_status cr_format_wordpiece(const char *op, const char *path, const char *text, size_t bytes, bool lowers,
                              cr_out *out);
cr_status cr_format_vocab_txt(const char *op, const char *path, const char *text, size_t bytes, cr_out *out);
/* gguf.c: the same of a GGUF file's entries; CR_IO: it holds no tokenizer, or none that is known here */
cr_status cr_format_gguf(const char *path, const cr_mapping *m, cr_out *out, bool *sentencepiece);

/* classes.c: transformers' tokenizer classes */
enum { CR_BOS, CR_EOS, CR_UNK, CR_SEP, CR_PAD, CR_CLS, CR_MASK, CR_ROLES };
extern const char *const cr_roles[CR_ROLES];        /* "bos_token", ... */
typedef struct cr_tokenizer_class {
    const char *names, *types;                      /* of the class, and of models; divided by spaces */
    const char *role[CR_ROLES];                     /* special tokens that no file names; NULL: none */
    bool byte_level;                                /* vocab.json with merges.txt, by `splits`, or GPT-2's */
    bool nfc, around;                               /* normalized; cls_token and sep_token around a text */
    /* tokenizer.model: eos_token behind a text; the mark of a space in front of its beginning only; XLM-R's numbers, or
     * others that are not known here; tokens <extra_id_0> on, behind the pieces and backwards */
    bool ends, first, fairseq, foreign;
    int sentinels;
    const char *splits;                             /* their name */
} cr_tokenizer_class;
/* By "tokenizer_class", or where none says it (*name NULL) by "model_type"; NULL: none of those known here. */
const cr_tokenizer_class *cr_tokenizer_class_of(const cr_json *tokenizer_config, const cr_json *config,
                                                const cr_json **name);

/* what they share: the first line, up to the list of added tokens; an entry of that list */
void      cr_format_begin(cr_out *out);
void      cr_format_added(cr_out *out, const char *content, size_t bytes, uint32_t id, bool special,
                          bool normalized);
/* A byte-level BPE behind its added tokens and before its vocabulary.  split: expressions, one after the other, none:
 * GPT-2's; whole: a piece that is a token is not merged; post: the post-processor, NULL: none. */
typedef struct cr_byte_level {
    const char *split[CR_SPLITS];
    bool prefix_space, whole, nfc;
    const char *post;
} cr_byte_level;
void      cr_format_byte_level(cr_out *out, const cr_byte_level *b);
/* the post-processor that puts tokens (NULL: none) around a text */
void      cr_format_around(cr_out *out, const cr_scored *const around[2]);
/* SentencePiece's: a BPE with a token for each byte, or a Unigram.  prefix: a space is put in front of a text; squeeze:
 * several spaces are one; charsmap: of its normalizer, NULL: none; post: as above */
typedef struct cr_scored_model {
    cr_scored *pieces; int64_t n;
    bool unigram, prefix, squeeze;
    const unsigned char *charsmap; size_t charsmap_bytes;
    const char *post;
} cr_scored_model;
cr_status cr_format_scored(const char *op, const char *path, const cr_scored_model *m, cr_out *out);
bool      cr_path_beside(const char *path, const char *name, char out[4096]);  /* name in the folder of path */

/* models.c */
cr_status cr_model_read(const char *op, const char *path, const cr_json *model, bool byte_level, bool sentencepiece,
                        cr_model *m);
/* the same of pieces; BPE: any two pieces whose text together is a piece merge into it, in the order of its score */
cr_status cr_model_of_pieces(const char *op, const char *path, const cr_pieces *pieces, cr_model *m);
/* Calls merge(left, right, piece) for each merge in that order; false: no memory, or a call gave false. */
bool      cr_pieces_merges(const cr_pieces *pieces, bool (*merge)(void *to, const cr_scored *piece, size_t cut),
                           void *to);
/* the two tokens of a merge, "a b" or ["a", "b"]; false: it is neither */
bool      cr_merge_sides(const cr_json *merge, const char *side[2], size_t bytes[2]);
void      cr_model_free(cr_model *m);
void      cr_model_hide(cr_model *m, uint32_t id);  /* Unigram: text never gives this token */
/* appends the ids of a piece; false: w->wrong says why, NULL: no memory */
bool      cr_model_encode(const cr_model *m, cr_workspace *w, const char *s, size_t n, cr_ids *out);
struct cr_piece *cr_pieces_new(void);              /* an empty cache of pieces (free); NULL: no memory */
/* rank of a pair that merges, or CR_NO_ID */
uint32_t  cr_merge_find(const cr_model *m, uint32_t left, uint32_t right, uint32_t *id);

/* normalize.c */
/* s, valid UTF-8, normalized; false: w->wrong says why.  The result is s, or lies in w until the next call. */
bool cr_normalize(const cr_pipeline *p, cr_workspace *w, const char **s, size_t *n);
/* the normalizer of SentencePiece: the size of its trie, its trie, its strings */
bool cr_charsmap_read(cr_normalizer *n, const unsigned char *data, size_t bytes);
bool cr_is_space(uint32_t code);                    /* Unicode's White_Space */
size_t cr_space_at(const char *s, size_t n);        /* bytes of the space that s begins with, 0: none */
size_t cr_space_before(const char *s, size_t n);    /* the same of the space that s ends with */
/* the next occurrence of a literal in s from `from` on, n: none */
size_t cr_literal_find(const char *literal, size_t bytes, const char *s, size_t n, size_t from);

/* encode.c */
struct cr_workspace {
    cr_workspace *next;
    cr_regex_room *regex;
    struct cr_piece *cache;
    cr_out text[CR_STEPS + 4];                      /* one for each step that changes text; the last two: normalizers */
    uint32_t *symbols; int64_t symbol_room;         /* BPE and Unigram */
    const char *wrong;                              /* why it failed */
};
cr_workspace *cr_workspace_take(cr_pipeline *p);    /* one that no other thread uses; NULL: no memory */
void          cr_workspace_give(cr_pipeline *p, cr_workspace *w);
void          cr_workspace_free(cr_workspace *w);
/* false: a message.  threads: the most that may work on it. */
int64_t cr_pipeline_behind(const cr_pipeline *p);   /* ids that stand behind a text */
bool cr_pipeline_encode(cr_pipeline *p, const char *op, const char *text, size_t bytes, const cr_encoding *o,
                        int threads,
                        cr_ids *out);
int64_t     cr_pipeline_find(const cr_pipeline *p, const char *token, size_t bytes);                   /* -1: none */
const char *cr_pipeline_name(const cr_pipeline *p, int64_t id, size_t *bytes, bool *special);          /* NULL: none */
/* words.c: GPT-2's alphabet: the character that stands for a byte, and back (-1: none) */
uint32_t cr_alphabet_of(unsigned char byte);
int      cr_alphabet_byte(uint32_t code);
/* decode.c: a decoder of one text */
typedef struct cr_decode_state { int64_t count, stripped; bool pending; } cr_decode_state;
bool cr_pipeline_decode(const cr_pipeline *p, cr_decode_state *d, uint32_t id, cr_out *out);

#endif
