/* A WordPiece tokenizer for BERT vocabularies in GGUF files: a token that starts a word has the prefix U+2581, a token
 * that continues one has none. Text is lower-cased, accents of Latin letters are dropped, and each punctuation mark and
 * CJK character is a word of its own. Plain C11 without a library. */
#ifndef WORDPIECE_H
#define WORDPIECE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct wordpiece {
    size_t        n_tokens;
    const char ** text;      /* n_tokens strings, owned by the caller (in the GGUF context) */
    uint8_t     * control;   /* 1 for control tokens, which never come from text */
    uint32_t    * slots;     /* open addressing over text: index + 1, or 0 */
    size_t        n_slots;   /* a power of two */
    size_t        max_bytes; /* the longest token */
    int32_t       unk, cls, sep;
};

static inline uint64_t wp_hash(const char * s, size_t n) {
    uint64_t h = 1469598103934665603ull; /* FNV-1a */
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (uint8_t) s[i]) * 1099511628211ull;
    }
    return h;
}

static inline int32_t wp_find(const struct wordpiece * wp, const char * s, size_t n) {
    for (size_t i = wp_hash(s, n) & (wp->n_slots - 1);; i = (i + 1) & (wp->n_slots - 1)) {
        if (wp->slots[i] == 0) {
            return -1;
        }
        const uint32_t t = wp->slots[i] - 1;
        if (strlen(wp->text[t]) == n && memcmp(wp->text[t], s, n) == 0) {
            return (int32_t) t;
        }
    }
}

/* `text` and `control` must outlive the tokenizer. Returns false if there is no memory. */
static inline bool wp_init(struct wordpiece * wp, const char ** text, uint8_t * control, size_t n, int32_t unk, int32_t cls, int32_t sep) {
    *wp = (struct wordpiece) { .n_tokens = n, .text = text, .control = control, .unk = unk, .cls = cls, .sep = sep };
    wp->n_slots = 64;
    while (wp->n_slots < 2 * n) {
        wp->n_slots *= 2;
    }
    wp->slots = calloc(wp->n_slots, sizeof(uint32_t));
    if (wp->slots == NULL) {
        return false;
    }
    for (size_t t = 0; t < n; t++) {
        const size_t len = strlen(text[t]);
        if (len == 0 || control[t]) {
            continue;
        }
        wp->max_bytes = len > wp->max_bytes ? len : wp->max_bytes;
        size_t i = wp_hash(text[t], len) & (wp->n_slots - 1);
        while (wp->slots[i] != 0) {
            i = (i + 1) & (wp->n_slots - 1);
        }
        wp->slots[i] = (uint32_t) t + 1;
    }
    return true;
}

static inline void wp_free(struct wordpiece * wp) {
    free(wp->slots);
    wp->slots = NULL;
}

/* Reads one code point, and advances *p past it. A byte that is not UTF-8 reads as U+FFFD. */
static inline uint32_t wp_next(const char ** p) {
    const uint8_t * s = (const uint8_t *) *p;
    const int n = s[0] < 0x80 ? 1 : (s[0] & 0xE0) == 0xC0 ? 2 : (s[0] & 0xF0) == 0xE0 ? 3 : (s[0] & 0xF8) == 0xF0 ? 4 : 0;
    uint32_t c = n == 1 ? s[0] : n == 2 ? s[0] & 0x1Fu : n == 3 ? s[0] & 0x0Fu : s[0] & 0x07u;
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            *p += 1;
            return 0xFFFD;
        }
        c = c << 6 | (s[i] & 0x3Fu);
    }
    *p += n == 0 ? 1 : n;
    return n == 0 ? 0xFFFD : c;
}

static inline size_t wp_put(char * out, uint32_t c) {
    if (c < 0x80)    { out[0] = (char) c; return 1; }
    if (c < 0x800)   { out[0] = (char) (0xC0 | c >> 6);  out[1] = (char) (0x80 | (c & 0x3F)); return 2; }
    if (c < 0x10000) { out[0] = (char) (0xE0 | c >> 12); out[1] = (char) (0x80 | (c >> 6 & 0x3F)); out[2] = (char) (0x80 | (c & 0x3F)); return 3; }
    out[0] = (char) (0xF0 | c >> 18); out[1] = (char) (0x80 | (c >> 12 & 0x3F)); out[2] = (char) (0x80 | (c >> 6 & 0x3F)); out[3] = (char) (0x80 | (c & 0x3F));
    return 4;
}

/* Lower case without accents; 0 for a character that vanishes (a combining mark, a control character). */
static inline uint32_t wp_fold(uint32_t c) {
    /* U+00C0..U+017F, one letter each: '.' keeps the character, anything else replaces it */
    static const char latin[] =
        "aaaaaa.ceeeeiiii.nooooo..uuuuy..aaaaaa.ceeeeiiii.nooooo..uuuuy.y"
        "aaaaaaccccccccdd..eeeeeeeeeegggggggghh..iiiiiiiii...jjkk.llllll."
        "...nnnnnn...oooooo..rrrrrrsssssssstttt..uuuuuuuuuuuuwwyyyzzzzzz.";
    if (c >= 'A' && c <= 'Z') { return c + 32; }
    if (c < 0x20 || c == 0x7F || c == 0xFFFD) { return 0; }
    if (c < 0xC0) { return c; }
    if (c < 0xC0 + sizeof(latin) - 1 && latin[c - 0xC0] != '.') { return (uint8_t) latin[c - 0xC0]; }
    /* The other capitals of Latin-1: AE, ETH, O-stroke, THORN. */
    if (c >= 0xC0 && c <= 0xDE && c != 0xD7) { return c + 32; }
    if (c >= 0x100 && c < 0x17F) { return (c & 1) == (c >= 0x139 && c < 0x149) ? c + 1 - (c == 0x138) : c; }
    if (c >= 0x300 && c <= 0x36F) { return 0; }                  /* combining marks */
    if (c >= 0x391 && c <= 0x3A9) { return c + 32; }             /* Greek */
    if (c >= 0x410 && c <= 0x42F) { return c + 32; }             /* Cyrillic */
    if (c >= 0x400 && c <= 0x40F) { return c + 80; }
    return c;
}

static inline bool wp_space(uint32_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == 0xA0 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x3000;
}

static inline bool wp_alone(uint32_t c) {
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126) /* ASCII */
        || (c >= 0xA1 && c <= 0xBF && c != 0xAA && c != 0xB2 && c != 0xB3 && c != 0xB5 && c != 0xB9 && c != 0xBA && !(c >= 0xBC && c <= 0xBE))
        || (c >= 0x2010 && c <= 0x205E) || (c >= 0x3001 && c <= 0x303F) /* general, CJK */
        || (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x20000 && c <= 0x2FA1F);
}

/* Splits one word (with its U+2581 prefix) into the longest known pieces, left to right; the whole word is unknown if a
 * part is. */
static inline size_t wp_word(const struct wordpiece * wp, const char * word, size_t len, int32_t * out, size_t room) {
    size_t n = 0;
    for (size_t begin = 0; begin < len;) {
        size_t  end   = len - begin > wp->max_bytes ? begin + wp->max_bytes : len;
        int32_t found = -1;
        for (; end > begin && found < 0; end--) {
            found = wp_find(wp, word + begin, end - begin);
            if (found >= 0) { break; }
        }
        if (found < 0) {
            if (room > 0) { out[0] = wp->unk; }
            return room > 0 ? 1 : 0;
        }
        if (n < room) { out[n++] = found; }
        begin = end;
    }
    return n;
}

/* Writes the token ids of [CLS] text [SEP]. `out` has room for `room` (at least 2) ids; a longer text is cut. Returns
 * the number of ids, or 0 if there is no memory. */
static inline size_t wp_encode(const struct wordpiece * wp, const char * text, int32_t * out, size_t room) {
    char * word = malloc(3 + strlen(text) * 2 + 8);
    if (word == NULL) {
        return 0;
    }
    memcpy(word, "\xE2\x96\x81", 3);
    size_t n = 0, len = 3;
    out[n++] = wp->cls;
    for (const char * p = text;;) {
        const uint32_t raw   = *p != '\0' ? wp_next(&p) : 0;
        const uint32_t c     = raw == 0 || wp_space(raw) ? ' ' : wp_fold(raw);
        const bool     alone = c != 0 && wp_alone(c);
        if (c == ' ' || alone) {
            if (len > 3) { n += wp_word(wp, word, len, out + n, room - 1 - n); }
            len = 3;
        }
        if (alone) {
            n += wp_word(wp, word, 3 + wp_put(word + 3, c), out + n, room - 1 - n);
        } else if (c != ' ' && c != 0) {
            len += wp_put(word + len, c);
        }
        if (raw == 0) {
            break;
        }
    }
    out[n++] = wp->sep;
    free(word);
    return n;
}

#endif
