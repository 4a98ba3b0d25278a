/* splits.c - the expressions that known tokenizers divide a text by, without PCRE2.
 *
 * Such an expression is a list of alternatives.  `parts` has a matcher for each alternative that is known here by its
 * text, so an expression of known alternatives in any order is run here, and any other by PCRE2 (regex.c).  Most
 * alternatives are a run: an optional character, one or more of a set, and a tail.  Characters are looked up as one of
 * 18 classes, by which every set can be said. */
#include "splits.h"

#include <stdlib.h>
#include <string.h>

#include "../core/utf8.h"
#include "unicode.h"

/* ---- classes: a character is in one of them ---- */
enum {
    UPPER = 1 << 0,
    LOWER = 1 << 1,
    TITLE = 1 << 2,
    MODIFIER = 1 << 3,                              /* Lm */
    NO_CASE = 1 << 4,                               /* Lo */
    MARK = 1 << 5,
    NUMBER = 1 << 6,
    PUNCTUATION = 1 << 7,
    SYMBOL = 1 << 8,
    REST = 1 << 9,                                  /* C without white space */
    WHITE = 1 << 10,                                /* white space but these two: */
    SPACE = 1 << 11,
    NEWLINE = 1 << 12,                              /* CR, LF */
    /* ASCII but digits: */
    ASCII_UPPER = 1 << 13,
    ASCII_LOWER = 1 << 14,
    ASCII_PUNCTUATION = 1 << 15,
    ASCII_SYMBOL = 1 << 16,
    SLASH = 1 << 17,

    ALL = (1 << 18) - 1,
    ASCII_LETTERS = ASCII_UPPER | ASCII_LOWER,
    CAPITALS = UPPER | ASCII_UPPER | TITLE | MODIFIER | NO_CASE | MARK,     /* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] */
    SMALL = LOWER | ASCII_LOWER | MODIFIER | NO_CASE | MARK,                /* [\p{Ll}\p{Lm}\p{Lo}\p{M}] */
    LETTERS = UPPER | LOWER | TITLE | MODIFIER | NO_CASE | ASCII_LETTERS,   /* \p{L} */
    P = PUNCTUATION | ASCII_PUNCTUATION | SLASH,
    S = SYMBOL | ASCII_SYMBOL,
    SPACES = WHITE | SPACE | NEWLINE,                                       /* \s */
    OTHERS = ALL & ~(SPACES | LETTERS | NUMBER)                             /* [^\s\p{L}\p{N}] */
};

static uint32_t class_of(uint32_t c) {
    static const uint32_t of[] = {
        [CR_LU] = UPPER, [CR_LL] = LOWER, [CR_LT] = TITLE, [CR_LM] = MODIFIER, [CR_LO] = NO_CASE,
        [CR_MN] = MARK, [CR_MC] = MARK, [CR_ME] = MARK,
        [CR_ND] = NUMBER, [CR_NL] = NUMBER, [CR_NO] = NUMBER,
        [CR_PC] = PUNCTUATION, [CR_PD] = PUNCTUATION, [CR_PS] = PUNCTUATION, [CR_PE] = PUNCTUATION,
        [CR_PI] = PUNCTUATION, [CR_PF] = PUNCTUATION, [CR_PO] = PUNCTUATION,
        [CR_SM] = SYMBOL, [CR_SC] = SYMBOL, [CR_SK] = SYMBOL, [CR_SO] = SYMBOL,
        [CR_ZS] = WHITE, [CR_ZL] = WHITE, [CR_ZP] = WHITE,
        [CR_CC] = REST, [CR_CF] = REST, [CR_CS] = REST, [CR_CO] = REST, [CR_CN] = REST,
    };
    return c == 0x85 ? WHITE : of[cr_unicode_category(c)];
}

static uint32_t class_of_ascii(uint32_t c) {
    const uint32_t of = class_of(c);
    if (c == ' ') return SPACE;
    if (c == '\n' || c == '\r') return NEWLINE;
    if (c == '/') return SLASH;
    if (c >= 9 && c <= 13) return WHITE;
    return of == UPPER ? ASCII_UPPER : of == LOWER ? ASCII_LOWER : of == PUNCTUATION ? ASCII_PUNCTUATION
           : of == SYMBOL ? ASCII_SYMBOL : of;
}

/* ---- the alternatives ---- */
typedef enum kind {
    RUN,                                            /* lead? run{1,most} tail* */
    LED_RUN,                                        /* lead run+ */
    CASES,                                          /* lead? CAPITALS* SMALL+ | lead? CAPITALS+ SMALL* */
    CASES_CONTRACTED,                               /* the same, a contraction in any case behind each */
    CONTRACTION,
    CONTRACTION_ANY_CASE,
    RANGES,                                         /* one or more characters of `ranges` */
    LINES,                                          /* \s*[\r\n]+ */
    LAST_LINE,                                      /* \s++$ */
    BEFORE_WORD                                     /* \s+(?!\S) */
} kind;

typedef struct part {
    const char *text;                               /* with \r and \n in place of these characters */
    kind kind;
    uint32_t lead, run, tail;
    uint32_t most;                                  /* 0: no limit */
    const uint32_t (*ranges)[2];
} part;

#define CASELESS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define MAYBE_LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define NOT_LETTER (ALL & ~(NEWLINE | LETTERS | NUMBER))
#define UPPER_SET "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER_SET "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define DIVIDED MAYBE_LEAD UPPER_SET "*" LOWER_SET "+"
#define SHOUTED MAYBE_LEAD UPPER_SET "+" LOWER_SET "*"
#define ASCII_LED "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define CJK "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+"     /* as cjk */
#define EAST "[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+"     /* as east */

static const uint32_t cjk[][2] = {{0x4E00, 0x9FA5}, {0x3040, 0x309F}, {0x30A0, 0x30FF}, {1, 0}};
static const uint32_t east[][2] = {{0x4E00, 0x9FA5}, {0x800, 0x4E00}, {0xAC00, 0xD7FF}, {1, 0}};

static const part parts[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d", .kind = CONTRACTION},
    {"'(?:[sdmt]|ll|ve|re)", .kind = CONTRACTION},
    {CASELESS, .kind = CONTRACTION_ANY_CASE},
    {"'(?i:[sdmt]|ll|ve|re)", .kind = CONTRACTION_ANY_CASE},
    /* letters */
    {"\\p{L}+", .run = LETTERS},
    {" ?\\p{L}+", .lead = SPACE, .run = LETTERS},
    {" ?\\p{L}++", .lead = SPACE, .run = LETTERS},
    {"\\s?\\p{L}+", .lead = SPACES, .run = LETTERS},
    {MAYBE_LEAD "\\p{L}+", .lead = NOT_LETTER, .run = LETTERS},
    {MAYBE_LEAD "+\\p{L}+", .lead = NOT_LETTER, .run = LETTERS},
    {MAYBE_LEAD "+\\p{L}++", .lead = NOT_LETTER, .run = LETTERS},
    {MAYBE_LEAD "[\\p{L}\\p{M}]+", .lead = NOT_LETTER, .run = LETTERS | MARK},
    {"[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+",
     .lead = ALL & ~(NEWLINE | LETTERS | P | S), .run = LETTERS | MARK},
    {ASCII_LED, .kind = LED_RUN, .lead = ASCII_PUNCTUATION | ASCII_SYMBOL | SLASH, .run = ASCII_LETTERS},
    {DIVIDED "|" SHOUTED, CASES, .lead = NOT_LETTER},
    {DIVIDED CASELESS "?|" SHOUTED CASELESS "?", .kind = CASES_CONTRACTED, .lead = NOT_LETTER},
    {CJK, .kind = RANGES, .ranges = cjk},
    {EAST, .kind = RANGES, .ranges = east},
    /* numbers */
    {"\\p{N}", .run = NUMBER, .most = 1},
    {"\\p{N}{1,2}", .run = NUMBER, .most = 2},
    {"\\p{N}{1,3}", .run = NUMBER, .most = 3},
    {"\\p{N}+", .run = NUMBER},
    {"\\p{N}{1,3}+", .run = NUMBER},                /* Oniguruma: (\p{N}{1,3})+ */
    {" ?\\p{N}+", .lead = SPACE, .run = NUMBER},
    {" ?\\p{N}++", .lead = SPACE, .run = NUMBER},
    /* punctuation */
    {"\\s?\\p{P}+", .lead = SPACES, .run = P},
    {" ?[^\\s\\p{L}\\p{N}]+", .lead = SPACE, .run = OTHERS},
    {" ?[^\\s\\p{L}\\p{N}]++", .lead = SPACE, .run = OTHERS},
    {" ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*", .lead = SPACE, .run = OTHERS, .tail = NEWLINE},
    {" ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*", .lead = SPACE, .run = OTHERS, .tail = NEWLINE},
    {" ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+", .lead = SPACE, .run = OTHERS, .tail = NEWLINE},
    {" ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*", .lead = SPACE, .run = OTHERS, .tail = NEWLINE | SLASH},
    {" ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*", .lead = SPACE, .run = OTHERS & ~MARK, .tail = NEWLINE},
    {" ?[\\p{P}\\p{S}]+[\\r\\n]*", .lead = SPACE, .run = P | S, .tail = NEWLINE},
    {"[!-/:-@\\[-`{-~]", .run = ASCII_PUNCTUATION | ASCII_SYMBOL | SLASH, .most = 1},
    {"\\p{P}", .run = P, .most = 1},
    /* white space */
    {"[\\r\\n]", .run = NEWLINE, .most = 1},
    {"\\s*[\\r\\n]+", .kind = LINES},
    {"\\s*[\\r\\n]", .kind = LINES},                        /* the last one either way */
    {"\\s++$", .kind = LAST_LINE},
    {"\\s+(?!\\S)", .kind = BEFORE_WORD},
    {"\\s+", .run = SPACES},
    {"\\s", .run = SPACES, .most = 1},
};
enum { KNOWN = sizeof parts / sizeof *parts, MOST_PARTS = 12 };

struct cr_splitter {
    int n;
    const part *part[MOST_PARTS];
    uint32_t first[MOST_PARTS];                     /* classes that a match of the part begins with */
    uint32_t ascii[128];                            /* class of a character */
};

/* ---- matchers: the end of a match that begins at `at`; 0: none ---- */
typedef struct text { const cr_splitter *split; const char *s; size_t n; } text;

/* The class of the character at `at`, 0 at the end; *end: where it ends. */
static inline uint32_t class_at(const text *t, size_t at, size_t *end) {
    *end = at;
    if (at >= t->n) return 0;
    const unsigned char *s = (const unsigned char *)t->s + at;
    *end = at + 1;
    if (*s < 0x80) return t->split->ascii[*s];
    uint32_t c = 0;
    const int bytes = cr_utf8_decode(s, t->n - at, &c);
    if (!bytes) return REST;
    *end = at + (size_t)bytes;
    return class_of(c);
}

/* The end of the longest run of a set from `at` on. */
static inline size_t run_end(const text *t, size_t at, uint32_t set) {
    size_t end = at;
    while (class_at(t, at, &end) & set) at = end;
    return at;
}

static size_t match_contraction(const text *t, size_t at, bool any_case) {
    const char *s = t->s + at;
    const size_t n = t->n - at;
    if (n < 2 || *s != '\'') return 0;
    const int fold = any_case ? 0x20 : 0, a = s[1] | fold, b = n > 2 ? s[2] | fold : 0;
    if (a == 's' || a == 'd' || a == 'm' || a == 't') return at + 2;
    if ((a == 'l' && b == 'l') || (a == 'v' && b == 'e') || (a == 'r' && b == 'e')) return at + 3;
    return any_case && n > 2 && !memcmp(s + 1, "\xC5\xBF", 2) ? at + 3 : 0;         /* long s */
}

static size_t match_run(const text *t, const part *p, size_t at) {
    size_t end = at, next;
    uint32_t left = p->most ? p->most : UINT32_MAX;
    if ((class_at(t, at, &end) & p->lead) && (class_at(t, end, &next) & p->run)) at = end;
    else if (p->kind == LED_RUN || !(class_at(t, at, &end) & p->run)) return 0;
    if (!p->most) at = run_end(t, at, p->run);
    else while (left-- && (class_at(t, at, &end) & p->run)) at = end;
    return p->tail ? run_end(t, at, p->tail) : at;
}

/* CAPITALS* SMALL+ gives back capitals until a small one follows: the last of the run that is both ends the match. */
static size_t match_small(const text *t, size_t at) {
    size_t end = at, last = 0;
    for (uint32_t c; (c = class_at(t, at, &end)) & CAPITALS; at = end) if (c & SMALL) last = end;
    end = run_end(t, at, SMALL);
    return end > at ? end : last;
}

static size_t match_capitals(const text *t, size_t at) {
    const size_t end = run_end(t, at, CAPITALS);
    return end > at ? run_end(t, end, SMALL) : 0;
}

static size_t match_cases(const text *t, const part *p, size_t at) {
    size_t lead = at, end = 0;
    const bool led = class_at(t, at, &lead) & p->lead;
    if (led) end = match_small(t, lead);
    if (!end) end = match_small(t, at);
    if (!end && led) end = match_capitals(t, lead);
    if (!end) end = match_capitals(t, at);
    if (!end || p->kind == CASES) return end;
    const size_t contracted = match_contraction(t, end, true);
    return contracted ? contracted : end;
}

static size_t match_ranges(const text *t, const part *p, size_t at) {
    const size_t first = at;
    for (int bytes, in; at < t->n; at += (size_t)bytes) {
        uint32_t c = 0;
        bytes = cr_utf8_decode((const unsigned char *)t->s + at, t->n - at, &c);
        in = 0;
        for (int i = 0; p->ranges[i][0] <= p->ranges[i][1]; i++) in |= c >= p->ranges[i][0] && c <= p->ranges[i][1];
        if (!bytes || !in) break;
    }
    return at > first ? at : 0;
}

static size_t match_spaces(const text *t, const part *p, size_t at) {
    size_t end = at, last = at, line = 0, first = at;
    for (uint32_t c; (c = class_at(t, at, &end)) & SPACES; at = end) {
        last = at;
        if (c & NEWLINE) line = end;
    }
    if (p->kind == LINES) return line;
    if (at == t->n) return at;
    return p->kind == BEFORE_WORD && last > first ? last : 0;
}

static size_t match_part(const text *t, const part *p, size_t at) {
    switch (p->kind) {
    case RUN:
    case LED_RUN: return match_run(t, p, at);
    case CASES:
    case CASES_CONTRACTED: return match_cases(t, p, at);
    case CONTRACTION: return match_contraction(t, at, false);
    case CONTRACTION_ANY_CASE: return match_contraction(t, at, true);
    case RANGES: return match_ranges(t, p, at);
    case LINES:
    case LAST_LINE:
    case BEFORE_WORD: return match_spaces(t, p, at);
    }
    return 0;
}

/* ---- reading an expression ---- */
static uint32_t first_of(const part *p) {
    switch (p->kind) {
    case RUN: return p->lead | p->run;
    case LED_RUN: return p->lead;
    case CASES:
    case CASES_CONTRACTED: return p->lead | CAPITALS | SMALL;
    case CONTRACTION:
    case CONTRACTION_ANY_CASE: return ASCII_PUNCTUATION;
    case RANGES: return ALL;
    case LINES:
    case LAST_LINE:
    case BEFORE_WORD: return SPACES;
    }
    return 0;
}

/* The bytes of s that `known` spells, with \n for a line feed; 0: s begins with other ones. */
static size_t spelled_bytes(const char *s, size_t n, const char *known) {
    size_t at = 0;
    for (; *known; at++) {
        if (at == n) return 0;
        const bool line = s[at] == '\n' || s[at] == '\r';
        if (line ? strncmp(known, s[at] == '\n' ? "\\n" : "\\r", 2) : *known != s[at]) return 0;
        known += line ? 2 : 1;
    }
    return at;
}

cr_splitter *cr_splitter_new(const char *pattern, size_t bytes) {
    cr_splitter *split = calloc(1, sizeof *split);
    bool looks = false, spaces = false;
    for (size_t at = 0, used = 0; split && at <= bytes; at += used + 1) {
        int i = 0;
        for (; i < KNOWN; i++) {
            used = spelled_bytes(pattern + at, bytes - at, parts[i].text);
            if (used && (at + used == bytes || pattern[at + used] == '|')) break;
        }
        if (i == KNOWN || split->n == MOST_PARTS) { free(split); return NULL; }
        looks |= parts[i].kind == LINES || parts[i].kind == LAST_LINE;
        spaces |= parts[i].kind == RUN && parts[i].run == SPACES;
        split->first[split->n] = first_of(&parts[i]);
        split->part[split->n++] = &parts[i];
    }
    /* else each space of a run would look to the end of the run */
    if (split && looks && !spaces) { free(split); return NULL; }
    for (uint32_t c = 0; split && c < 128; c++) split->ascii[c] = class_of_ascii(c);
    return split;
}

bool cr_splitter_find(const cr_splitter *split, const char *s, size_t n, size_t from, size_t *start, size_t *end) {
    const text t = {split, s, n};
    for (size_t at = from, next; at < n; at = next) {
        const uint32_t c = class_at(&t, at, &next);
        for (int i = 0; i < split->n; i++) {
            if (!(split->first[i] & c) || !(*end = match_part(&t, split->part[i], at))) continue;
            *start = at;
            return true;
        }
    }
    return false;
}

/* ---- the names that llama.cpp gives to splits (tokenizer.ggml.pre) ---- */
#define END "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define AFTER_NUMBERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" END
#define LATIN CASELESS "|" MAYBE_LEAD "\\p{L}+|"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
const char cr_splitter_gpt2[] = GPT2;

static const cr_named_splits named[] = {
    {"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert roberta-bpe mpt olmo jais "
     "trillion granite-docling exaone4", false, {GPT2}},
    {"gpt-2", false, {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"}},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", false, {"\\p{N}", GPT2}},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", true,
     {LATIN "\\p{N}{1,3}" AFTER_NUMBERS}},
    {"smaug-bpe dbrx chatglm-bpe glm4", false, {LATIN "\\p{N}{1,3}" AFTER_NUMBERS}},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan solar-open", false, {LATIN "\\p{N}" AFTER_NUMBERS}},
    {"qwen35", false, {CASELESS "|" MAYBE_LEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" END}},
    {"tekken", true, {DIVIDED "|" SHOUTED "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" END}},
    {"gpt-4o llama4 kanana2 talkie", false,
     {DIVIDED CASELESS "?|" SHOUTED CASELESS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" END}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", false,
     {"\\p{N}{1,3}", CJK,
      ASCII_LED "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" END}},
    {"deepseek-coder", false, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", EAST, "\\p{N}"}},
};
enum { NAMED = sizeof named / sizeof *named };

bool cr_is_among(const char *names, const char *name, size_t bytes) {
    for (const char *at = names, *end; bytes && *at; at = end + (*end == ' ')) {
        end = at + strcspn(at, " ");
        if ((size_t)(end - at) == bytes && !memcmp(at, name, bytes)) return true;
    }
    return false;
}

const cr_named_splits *cr_named_splits_find(const char *name) {
    for (int i = 0; i < NAMED; i++) if (cr_is_among(named[i].names, name, strlen(name))) return &named[i];
    return NULL;
}

const cr_named_splits *cr_named_splits_of(const char *const pattern[CR_SPLITS], bool whole) {
    for (int i = 0; i < NAMED; i++) {
        int k = 0;
        for (const char *known; k < CR_SPLITS && (known = named[i].pattern[k]) && pattern[k]; k++) {
            const size_t bytes = strlen(pattern[k]);
            if (spelled_bytes(pattern[k], bytes, known) != bytes) break;
        }
        const bool same = k == CR_SPLITS || (!named[i].pattern[k] && !pattern[k]);
        if (same && named[i].whole == whole) return &named[i];
    }
    return NULL;
}
