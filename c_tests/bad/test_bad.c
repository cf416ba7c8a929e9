/* After bad input, the process is alive and the function has failed as its header says: damaged GGUF files, NULL for
 * queries, files and modules that do not exist. Written for this library; the original crashes on some of it.
 *
 *   test_bad [quick]     quick: fewer damaged files, for a run under valgrind */
#include "../common/check.h"
#include "../common/child.h"
#include "../common/data.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "gguf.h"

#include <stdint.h>
#ifndef _WIN32
#include <sys/mman.h>
#endif
#include <unistd.h>

enum { REFUSED = 5 }; /* of a child; 3 is what abort leaves on Windows */

static bool quick;
static int  log_lines;

static void quiet(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    log_lines += level >= GGML_LOG_LEVEL_WARN && strlen(text) > 1;
}

/* ---- a good file, in memory ---- */

static unsigned char good[8192];
static size_t        n_good, n_meta;

static void make_good(void) {
    struct ggml_context * c = ggml_init((struct ggml_init_params) { .mem_size = 1u << 16, .mem_buffer = NULL, .no_alloc = false });
    struct gguf_context * g = gguf_init_empty();
    gguf_set_val_str(g, "general.architecture", "test");
    gguf_set_val_u32(g, "general.alignment", 32);
    gguf_set_val_f32(g, "a.number", 1.5f);
    gguf_set_val_bool(g, "a.truth", true);
    static const char *  words[] = { "one", "two", "three" };
    static const int32_t ints[]  = { 1, 2, 3, 4, 5 };
    gguf_set_arr_str(g, "words", words, 3);
    gguf_set_arr_data(g, "ints", GGUF_TYPE_INT32, ints, 5);
    static const struct { const char * name; enum ggml_type type; int64_t n0, n1; } list[] = { { "a", GGML_TYPE_F32, 5, 3 }, { "b", GGML_TYPE_F16, 7, 1 }, { "c", GGML_TYPE_Q4_0, 32, 2 }, { "d", GGML_TYPE_Q6_K, 256, 1 } };
    for (size_t i = 0; i < 4; i++) {
        struct ggml_tensor * t = ggml_set_name(ggml_new_tensor_2d(c, list[i].type, list[i].n0, list[i].n1), list[i].name);
        memset(t->data, (int) i + 1, ggml_nbytes(t));
        gguf_add_tensor(g, t);
    }
    FILE * f = tmpfile();
    CHECK(f != NULL && gguf_write_to_file_ptr(g, f, false));
    if (f != NULL) {
        rewind(f);
        n_good = fread(good, 1, sizeof good, f);
        fclose(f);
    }
    n_meta = gguf_get_meta_size(g);
    CHECK(n_good > n_meta && n_meta > 100);
    gguf_free(g);
    ggml_free(c);
}

/* Calls every getter that a host would call, and touches every byte of their results. */
static uint64_t look_at(const struct gguf_context * g, const struct ggml_context * c) {
    uint64_t h = DATA_HASH0;
    for (int64_t i = 0; i < gguf_get_n_kv(g); i++) {
        h = data_hash(gguf_get_key(g, i), strlen(gguf_get_key(g, i)), h);
        const enum gguf_type t = gguf_get_kv_type(g, i);
        if (t == GGUF_TYPE_STRING) {
            h = data_hash(gguf_get_val_str(g, i), strlen(gguf_get_val_str(g, i)), h);
        } else if (t == GGUF_TYPE_ARRAY && gguf_get_arr_type(g, i) == GGUF_TYPE_STRING) {
            for (size_t k = 0; k < gguf_get_arr_n(g, i); k++) { h = data_hash(gguf_get_arr_str(g, i, k), strlen(gguf_get_arr_str(g, i, k)), h); }
        } else if (t == GGUF_TYPE_ARRAY) {
            static const size_t size[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
            h = data_hash(gguf_get_arr_data(g, i), gguf_get_arr_n(g, i) * size[gguf_get_arr_type(g, i)], h);
        }
    }
    for (int64_t i = 0; i < gguf_get_n_tensors(g); i++) { h = data_hash(gguf_get_tensor_name(g, i), strlen(gguf_get_tensor_name(g, i)), h) + gguf_get_tensor_size(g, i); }
    for (struct ggml_tensor * t = c == NULL ? NULL : ggml_get_first_tensor(c); t != NULL; t = ggml_get_next_tensor(c, t)) {
        if (t->data != NULL && ggml_nbytes(t) < (1u << 26)) { h = data_hash(t->data, ggml_nbytes(t), h); }
    }
    return h;
}

static uint64_t sink;

/* Reads `n` bytes as a GGUF file in three ways. Returns whether the whole of it was accepted. A refusal leaves no
 * context, and logs its reason. */
static bool read_gguf(const unsigned char * data, size_t n) {
    bool accepted = false;
    for (int way = 0; way < 3; way++) {
        struct ggml_context *         c      = NULL;
        const struct gguf_init_params params = { .no_alloc = way == 1, .ctx = way == 2 ? NULL : &c };
        /* A block of exactly this size, so that valgrind finds a read past its end. */
        unsigned char * copy = malloc(n > 0 ? n : 1);
        memcpy(copy, data, n);
        const int before = log_lines;
        struct gguf_context * g = gguf_init_from_buffer(copy, n, params);
        if (g != NULL) {
            accepted |= way == 0;
            sink += look_at(g, c);
        } else {
            if (c != NULL) { test_fails(__FILE__, __LINE__, "refused, but a context is left"); }
            if (log_lines == before) { test_fails(__FILE__, __LINE__, "refused without a word"); }
        }
        gguf_free(g);
        ggml_free(c);
        free(copy);
    }
    return accepted;
}

static void a_good_file(void) {
    CHECK(read_gguf(good, n_good));
}

static void cut_off_anywhere(void) {
    for (size_t n = 0; n < n_good; n += quick ? 13 : 1) {
        /* the last tensor's padding may be missing */
        if (read_gguf(good, n) && n + 32 <= n_good) { test_fails(__FILE__, __LINE__, "%zu of %zu bytes are accepted", n, n_good); }
    }
}

static unsigned char broken[8192 + 64];

static void one_bit_flipped(void) {
    for (size_t bit = 0; bit < n_meta * 8; bit += quick ? 97 : 1) {
        memcpy(broken, good, n_good);
        broken[bit / 8] ^= (unsigned char) (1u << (bit % 8));
        sink += read_gguf(broken, n_good);
    }
}

static void one_byte_replaced(void) {
    static const unsigned char values[] = { 0x00, 0xFF, 0x7F, 0x80 };
    for (size_t i = 0; i < n_meta; i += quick ? 17 : 1) {
        for (size_t v = 0; v < sizeof values; v++) {
            memcpy(broken, good, n_good);
            broken[i] = values[v];
            sink += read_gguf(broken, n_good);
        }
    }
}

static void many_bytes_replaced(void) {
    uint64_t s = 11;
    for (int round = 0; round < (quick ? 60 : 4000); round++) {
        memcpy(broken, good, n_good);
        for (int k = 0; k < 1 + round % 9; k++) { broken[data_next(&s) % n_meta] = (unsigned char) data_next(&s); }
        sink += read_gguf(broken, n_good);
    }
}

static void eight_bytes_replaced(void) {
    static const uint64_t values[] = { UINT64_MAX, (uint64_t) INT64_MAX, (uint64_t) INT64_MAX + 1, 1ull << 32, 1ull << 31, (1ull << 61) + 1, 0x0000000100000001ull, 0x5555555555555556ull };
    for (size_t i = 4; i + 8 <= n_meta; i += quick ? 11 : 1) {
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            memcpy(broken, good, n_good);
            memcpy(broken + i, &values[v], 8);
            sink += read_gguf(broken, n_good);
        }
    }
}

/* ---- files made by hand: each has one fault that a reader must find ---- */

static unsigned char hand[4096];
static size_t        n_hand;

static void put(const void * p, size_t n) { memcpy(hand + n_hand, p, n); n_hand += n; }
static void u32(uint32_t x) { put(&x, 4); }
static void u64(uint64_t x) { put(&x, 8); }
static void str(const char * s) { u64(strlen(s)); put(s, strlen(s)); }
static void head(uint32_t version, uint64_t tensors, uint64_t values) { n_hand = 0; put("GGUF", 4); u32(version); u64(tensors); u64(values); }
static void zeros(size_t n) { memset(hand + n_hand, 0, n); n_hand += n; }
static void pad(void) { while (n_hand % 32 != 0) { put("", 1); } }
static void tensor(const char * name, uint32_t dims, const uint64_t * ne, uint32_t type, uint64_t offset) {
    str(name);
    u32(dims);
    for (uint32_t i = 0; i < dims && i < 5; i++) { u64(ne[i]); }
    u32(type);
    u64(offset);
}

#define REFUSED(what)                                                                        \
    do {                                                                                     \
        if (read_gguf(hand, n_hand)) { test_fails(__FILE__, __LINE__, "%s is accepted", what); } \
    } while (0)

static void made_by_hand(void) {
    head(3, 0, 0); pad();
    if (!read_gguf(hand, n_hand)) { test_fails(__FILE__, __LINE__, "an empty file is refused"); }
    head(0, 0, 0); pad(); REFUSED("version 0");
    head(1, 0, 0); pad(); REFUSED("version 1");
    head(4, 0, 0); pad(); REFUSED("version 4");
    head(0x03000000, 0, 0); pad(); REFUSED("the other byte order");
    head(3, UINT64_MAX, 0); pad(); REFUSED("a negative number of tensors");
    head(3, 1ull << 60, 0); pad(); REFUSED("2^60 tensors");
    head(3, 0, 1ull << 60); pad(); REFUSED("2^60 values");
    head(3, 0, UINT64_MAX); pad(); REFUSED("a negative number of values");
    head(3, 0, 1); str(""); u32(GGUF_TYPE_UINT8); put("x", 1); pad(); REFUSED("an empty key");
    head(3, 0, 2); str("k"); u32(GGUF_TYPE_UINT8); put("x", 1); str("k"); u32(GGUF_TYPE_UINT8); put("x", 1); pad(); REFUSED("a key twice");
    head(3, 0, 1); u64(1ull << 40); put("k", 1); pad(); REFUSED("a key of a terabyte");
    head(3, 0, 1); u64(UINT64_MAX); put("k", 1); pad(); REFUSED("a key of 2^64 - 1 bytes");
    head(3, 0, 1); str("k"); u32(13); u64(0); pad(); REFUSED("value type 13");
    head(3, 0, 1); str("k"); u32(UINT32_MAX); u64(0); pad(); REFUSED("value type -1");
    head(3, 0, 1); str("k"); u32(GGUF_TYPE_ARRAY); u32(GGUF_TYPE_ARRAY); u64(1); u32(4); u64(0); pad(); REFUSED("an array of arrays");
    head(3, 0, 1); str("k"); u32(GGUF_TYPE_ARRAY); u32(99); u64(1); pad(); REFUSED("an array of type 99");
    head(3, 0, 1); str("k"); u32(GGUF_TYPE_ARRAY); u32(GGUF_TYPE_UINT64); u64(1ull << 61); pad(); REFUSED("an array of 2^64 bytes");
    head(3, 0, 1); str("k"); u32(GGUF_TYPE_ARRAY); u32(GGUF_TYPE_UINT8); u64(1ull << 40); pad(); REFUSED("an array of a terabyte");
    head(3, 0, 1); str("k"); u32(GGUF_TYPE_ARRAY); u32(GGUF_TYPE_STRING); u64(1ull << 59); pad(); REFUSED("an array of 2^59 texts");
    head(3, 0, 1); str("k"); u32(GGUF_TYPE_STRING); u64(1ull << 50); pad(); REFUSED("a text of 2^50 bytes");
    head(3, 0, 1); str("general.alignment"); u32(GGUF_TYPE_UINT32); u32(0); pad(); REFUSED("alignment 0");
    head(3, 0, 1); str("general.alignment"); u32(GGUF_TYPE_UINT32); u32(48); pad(); REFUSED("alignment 48");
    head(3, 0, 1); str("general.alignment"); u32(GGUF_TYPE_STRING); str("32"); pad(); REFUSED("an alignment that is a text");
    const uint64_t one[] = { 4, 1, 1, 1, 1 };
    head(3, 1, 0); tensor("t", 5, one, GGML_TYPE_F32, 0); pad(); pad(); REFUSED("five dimensions");
    head(3, 1, 0); tensor("t", UINT32_MAX, one, GGML_TYPE_F32, 0); pad(); REFUSED("2^32 - 1 dimensions");
    head(3, 1, 0); tensor("t", 1, one, 43, 0); pad(); REFUSED("tensor type 43");
    head(3, 1, 0); tensor("t", 1, one, 4, 0); pad(); REFUSED("a removed tensor type");
    head(3, 1, 0); tensor("t", 1, one, UINT32_MAX, 0); pad(); REFUSED("tensor type -1");
    head(3, 1, 0); tensor("t", 1, one, GGML_TYPE_Q4_0, 0); pad(); zeros(32); REFUSED("a row that is not whole blocks");
    head(3, 1, 0); tensor("t", 1, one, GGML_TYPE_F32, 8); pad(); zeros(64); REFUSED("an offset that is not aligned");
    head(3, 1, 0); tensor("t", 1, one, GGML_TYPE_F32, 1ull << 63); pad(); zeros(64); REFUSED("an offset of 2^63");
    char longest[GGML_MAX_NAME + 1];
    memset(longest, 'n', GGML_MAX_NAME);
    longest[GGML_MAX_NAME] = '\0';
    head(3, 1, 0); tensor(longest, 1, one, GGML_TYPE_F32, 0); pad(); zeros(32); REFUSED("a name that does not fit");
    head(3, 2, 0); tensor("t", 1, one, GGML_TYPE_F32, 0); tensor("t", 1, one, GGML_TYPE_F32, 32); pad(); zeros(64); REFUSED("a name twice");
    head(3, 1, 0); tensor("t", 1, one, GGML_TYPE_F32, 0); pad(); u64(0); REFUSED("half of the data");
    const uint64_t negative[] = { UINT64_MAX, 1, 1, 1 }, wide[] = { 1ull << 40, 1ull << 40, 1, 1 }, wrap[] = { 4, (1ull << 30) - 1, (1ull << 30) + 1, 1 }, zero_wrap[] = { 0, 1ull << 62, 1ull << 62, 8 },
                   most[] = { INT64_MAX, 1, 1, 1 }, product[] = { 1ull << 62, 4, 1, 1 };
    head(3, 1, 0); tensor("t", 1, negative, GGML_TYPE_F32, 0); pad(); REFUSED("a negative dimension");
    head(3, 1, 0); tensor("t", 2, wide, GGML_TYPE_F32, 0); pad(); REFUSED("2^80 elements");
    head(3, 1, 0); tensor("t", 3, wrap, GGML_TYPE_F32, 0); pad(); REFUSED("a size that wraps when it is padded");
    head(3, 1, 0); tensor("t", 4, zero_wrap, GGML_TYPE_F32, 0); pad(); sink += read_gguf(hand, n_hand);
    head(3, 1, 0); tensor("t", 1, most, GGML_TYPE_I8, 0); pad(); REFUSED("2^63 - 1 bytes");
    head(3, 1, 0); tensor("t", 2, product, GGML_TYPE_I8, 0); pad(); REFUSED("2^64 elements");
    head(3, 0, 0); pad(); memcpy(hand, "GGML", 4); REFUSED("another magic word");
}

static size_t too_much(void * user, void * out, uint64_t offset, size_t len) {
    (void) user; (void) out; (void) offset;
    return len + 1000;
}

static size_t nothing(void * user, void * out, uint64_t offset, size_t len) {
    (void) user; (void) out; (void) offset; (void) len;
    return 0;
}

static void callbacks_that_lie(void) {
    const struct gguf_init_params params = { .no_alloc = false, .ctx = NULL };
    CHECK(gguf_init_from_callback(nothing, NULL, 0, 1000, params) == NULL);
    CHECK(gguf_init_from_callback(too_much, NULL, 0, 1000, params) == NULL);
    CHECK(gguf_init_from_buffer(NULL, 0, params) == NULL);
    CHECK(gguf_init_from_file("/nonexistent/model.gguf", params) == NULL);
    CHECK(gguf_init_from_file("/tmp", params) == NULL); /* a folder */
    CHECK(gguf_init_from_file(NULL_DEVICE, params) == NULL);
    FILE * f = fopen("/dev/zero", "rb");
    if (f != NULL) {
        CHECK(gguf_init_from_file_ptr(f, params) == NULL);
        fclose(f);
    }
    struct gguf_context * g = gguf_init_empty();
    CHECK(!gguf_write_to_file(g, "/nonexistent/folder/file.gguf", false));
    gguf_free(g);
    gguf_free(NULL);
}

/* A file that gets shorter while it is read: `*user` bytes are left of the good one. */
static size_t shrinking(void * user, void * out, uint64_t offset, size_t len) {
    const size_t left = *(size_t *) user;
    if (offset >= left) { return 0; }
    const size_t n = len < left - offset ? len : left - (size_t) offset;
    memcpy(out, good + offset, n);
    return n;
}

static void files_that_end_early(void) {
    for (size_t left = 0; left < n_good; left += 61) {
        /* Must not be used before there is a context. */
        struct ggml_context *         c      = (struct ggml_context *) &left;
        const struct gguf_init_params params = { .no_alloc = false, .ctx = &c };
        CHECK(gguf_init_from_callback(shrinking, &left, 0, n_good, params) == NULL);
        CHECK(c == NULL || c == (struct ggml_context *) &left);
    }
    size_t all = n_good;
    const struct gguf_init_params params = { .no_alloc = true, .ctx = NULL };
    struct gguf_context * g = gguf_init_from_callback(shrinking, &all, 0, n_good, params);
    CHECK(g != NULL && gguf_get_n_tensors(g) == 4);
    gguf_free(g);
    /* A file without a position: a pipe. */
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], good, 64) == 64);
    close(ends[1]);
    FILE * f = fdopen(ends[0], "rb");
    CHECK(f != NULL && gguf_init_from_file_ptr(f, params) == NULL);
    if (f != NULL) { fclose(f); }
}

/* A tensor of 2^30 bytes, all of them in the file, and no memory for it: neither a GGUF nor a ggml context. */
static size_t large(void * user, void * out, uint64_t offset, size_t len) {
    (void) user;
    memset(out, 0, len);
    if (offset < n_hand) { memcpy(out, hand + offset, len < n_hand - offset ? len : n_hand - (size_t) offset); }
    return len;
}

static void little_memory(void * user) {
    (void) user;
#ifdef _WIN32
    _exit(4);
#else
    const struct rlimit limit = { 1u << 29, 1u << 29 };
    setrlimit(RLIMIT_AS, &limit);
    if (mmap(NULL, 1u << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) { _exit(4); }
#endif
    struct ggml_context *         c      = NULL;
    const struct gguf_init_params params = { .no_alloc = false, .ctx = &c };
    struct gguf_context *         g      = gguf_init_from_callback(large, NULL, 0, n_hand + (1u << 30), params);
    _exit(g == NULL && c == NULL ? REFUSED : 0);
}

static void no_memory_for_the_data(void) {
    const uint64_t ne[] = { 1u << 30 };
    head(3, 1, 0); tensor("t", 1, ne, GGML_TYPE_I8, 0); pad();
    const int status = child_run(little_memory, NULL);
    if (status == 4) { printf("note: this system does not limit memory (qemu and Windows do not): a file larger than memory was not read\n"); }
    if (status != REFUSED && status != 4) { test_fails(__FILE__, __LINE__, "a file larger than memory: %s", child_verdict(status)); }
}

/* Bytes of a file must not drive the terminal that shows the log. */
static char heard[1 << 16];

static void listen(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    log_lines += level >= GGML_LOG_LEVEL_WARN && strlen(text) > 1;
    strncat(heard, text, sizeof heard - strlen(heard) - 1);
}

static void bytes_that_are_no_text(void) {
    static const char * keys[] = { "\x1b[2J\x1b]0;title\x07", "\xff\xfe\x80 key", "line\nbreak\r" };
    ggml_log_set(listen, NULL);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        heard[0] = '\0';
        head(3, 0, 2); str(keys[i]); u32(GGUF_TYPE_UINT8); put("x", 1); str(keys[i]); u32(GGUF_TYPE_UINT8); put("x", 1); pad(); REFUSED("a key twice");
        head(3, 0, 1); str(keys[i]); u32(99); u32(0); pad(); pad(); REFUSED("value type 99");
        const uint64_t ne[] = { 33 };
        head(3, 1, 0); tensor(keys[i], 1, ne, GGML_TYPE_Q4_0, 0); pad(); REFUSED("a row of broken blocks");
        head(3, 0, 0); memcpy(hand, keys[i], 4); pad(); REFUSED("a wrong magic word");
        CHECK(strlen(heard) > 40);
        for (const char * p = heard; *p != '\0'; p++) {
            if ((unsigned char) *p < 32 && *p != '\n') { test_fails(__FILE__, __LINE__, "byte %d stands in the log", *p); }
        }
    }
    ggml_log_set(quiet, NULL);
}

/* The original ends the process here. This library logs an error, and returns 0, false or NULL. */
static void values_of_another_type(void) {
    struct gguf_context * g = gguf_init_empty();
    gguf_set_val_u32(g, "number", 7);
    gguf_set_val_str(g, "text", "seven");
    const int before = log_lines;
    CHECK(gguf_get_val_f32(g, 0) == 0 && gguf_get_val_u64(g, 0) == 0 && gguf_get_val_str(g, 0) == NULL && gguf_get_arr_str(g, 0, 0) == NULL);
    CHECK(!gguf_get_val_bool(g, 1) && gguf_get_val_i8(g, 1) == 0 && gguf_get_val_data(g, 1) == NULL);
    CHECK(gguf_get_key(g, 2) == NULL && gguf_get_key(g, -1) == NULL && gguf_get_val_u32(g, 99) == 0 && gguf_get_tensor_name(g, 0) == NULL && gguf_get_tensor_size(g, -1) == 0);
    CHECK(log_lines >= before + 10);
    CHECK(gguf_get_val_u32(g, 0) == 7);
    gguf_free(g);
}

/* ---- NULL where a query can still be answered ---- */

static struct ggml_context * some_context(void) {
    return ggml_init((struct ggml_init_params) { .mem_size = 1u << 18, .mem_buffer = NULL, .no_alloc = true });
}

/* The results of queries about NULL. Each runs in a child process, so that one that ends it does not hide the
 * others. */
#define QUERIES \
    Q(ggml_nelements(NULL) == 0) \
    Q(ggml_nrows(NULL) == 0) \
    Q(ggml_nbytes(NULL) == 0) \
    Q(ggml_nbytes_pad(NULL) == 0) \
    Q(ggml_element_size(NULL) == 0) \
    Q(ggml_n_dims(NULL) >= 0) \
    Q(!ggml_is_view(NULL)) \
    Q(!ggml_is_empty(NULL) || true) \
    Q(!ggml_is_contiguous(NULL) || true) \
    Q(!ggml_is_contiguous_1(NULL) || true) \
    Q(!ggml_is_contiguous_rows(NULL) || true) \
    Q(!ggml_is_contiguously_allocated(NULL) || true) \
    Q(!ggml_is_scalar(NULL)) \
    Q(!ggml_is_vector(NULL)) \
    Q(!ggml_is_matrix(NULL)) \
    Q(!ggml_is_3d(NULL)) \
    Q(!ggml_is_permuted(NULL)) \
    Q(!ggml_is_transposed(NULL)) \
    Q(!ggml_are_same_shape(NULL, NULL)) \
    Q(!ggml_are_same_stride(NULL, NULL)) \
    Q(!ggml_can_repeat(NULL, NULL)) \
    Q(ggml_get_data(NULL) == NULL) \
    Q(ggml_get_name(NULL) != (const char *) 1) \
    Q(ggml_op_desc(NULL) != (const char *) 1) \
    Q(ggml_get_first_tensor(NULL) == NULL) \
    Q(ggml_get_tensor(NULL, "x") == NULL) \
    Q(ggml_get_tensor(some_context(), NULL) == NULL) \
    Q(ggml_get_next_tensor(some_context(), NULL) == NULL) \
    Q(ggml_used_mem(NULL) == 0) \
    Q(ggml_get_mem_size(NULL) == 0) \
    Q(ggml_get_mem_buffer(NULL) == NULL) \
    Q(ggml_get_max_tensor_size(NULL) == 0) \
    Q(!ggml_get_no_alloc(NULL)) \
    Q(ggml_graph_n_nodes(NULL) == 0) \
    Q(ggml_graph_size(NULL) == 0) \
    Q(ggml_graph_nodes(NULL) == NULL) \
    Q(ggml_graph_get_tensor(NULL, "x") == NULL) \
    Q(ggml_graph_get_tensor(ggml_new_graph(some_context()), NULL) == NULL) \
    Q(ggml_graph_get_grad(NULL, NULL) == NULL) \
    Q(ggml_graph_get_grad_acc(NULL, NULL) == NULL) \
    Q(!ggml_guid_matches(NULL, NULL) || true) \
    Q(gguf_get_version(NULL) == 0) \
    Q(gguf_get_alignment(NULL) == 0 || true) \
    Q(gguf_get_data_offset(NULL) == 0) \
    Q(gguf_get_n_kv(NULL) == 0) \
    Q(gguf_get_n_tensors(NULL) == 0) \
    Q(gguf_find_key(NULL, "x") == -1) \
    Q(gguf_find_tensor(NULL, "x") == -1) \
    Q(gguf_find_key(gguf_init_empty(), NULL) == -1) \
    Q(gguf_find_tensor(gguf_init_empty(), NULL) == -1) \
    Q(gguf_get_key(NULL, 0) == NULL) \
    Q(gguf_get_val_str(NULL, 0) == NULL) \
    Q(gguf_get_tensor_name(NULL, 0) == NULL) \
    Q(gguf_get_meta_size(NULL) == 0 || true) \
    Q(ggml_backend_dev_by_name(NULL) == NULL) \
    Q(ggml_backend_reg_by_name(NULL) == NULL) \
    Q(ggml_backend_init_by_name(NULL, NULL) == NULL) \
    Q(ggml_backend_name(NULL) != (const char *) 1) \
    Q(ggml_backend_guid(NULL) == NULL) \
    Q(ggml_backend_get_device(NULL) == NULL) \
    Q(ggml_backend_get_default_buffer_type(NULL) == NULL) \
    Q(ggml_backend_get_alignment(NULL) == 0) \
    Q(ggml_backend_get_max_size(NULL) == 0) \
    Q(!ggml_backend_supports_op(NULL, NULL)) \
    Q(!ggml_backend_supports_buft(NULL, NULL)) \
    Q(!ggml_backend_offload_op(NULL, NULL)) \
    Q(!ggml_backend_is_cpu(NULL)) \
    Q(ggml_backend_buffer_name(NULL) != (const char *) 1) \
    Q(ggml_backend_buffer_get_size(NULL) == 0) \
    Q(ggml_backend_buffer_get_base(NULL) == NULL) \
    Q(ggml_backend_buffer_get_alignment(NULL) == 0) \
    Q(ggml_backend_buffer_get_max_size(NULL) == 0) \
    Q(ggml_backend_buffer_get_alloc_size(NULL, NULL) == 0) \
    Q(!ggml_backend_buffer_is_host(NULL)) \
    Q(ggml_backend_buffer_get_usage(NULL) == GGML_BACKEND_BUFFER_USAGE_ANY) \
    Q(ggml_backend_buffer_get_type(NULL) == NULL) \
    Q(ggml_backend_buft_name(NULL) != (const char *) 1) \
    Q(!ggml_backend_buft_is_host(NULL)) \
    Q(ggml_backend_buft_get_device(NULL) == NULL) \
    Q(ggml_backend_buft_get_alignment(NULL) == 0) \
    Q(ggml_backend_buft_get_max_size(NULL) == 0) \
    Q(ggml_backend_buft_get_alloc_size(NULL, NULL) == 0) \
    Q(ggml_backend_buft_alloc_buffer(NULL, 16) == NULL) \
    Q(ggml_backend_dev_name(NULL) != (const char *) 1) \
    Q(ggml_backend_dev_description(NULL) != (const char *) 1) \
    Q(ggml_backend_dev_backend_reg(NULL) == NULL) \
    Q(ggml_backend_dev_buffer_type(NULL) == NULL) \
    Q(ggml_backend_dev_host_buffer_type(NULL) == NULL) \
    Q(ggml_backend_dev_init(NULL, NULL) == NULL) \
    Q(ggml_backend_dev_type(NULL) >= 0) \
    Q(!ggml_backend_dev_supports_op(NULL, NULL)) \
    Q(!ggml_backend_dev_supports_buft(NULL, NULL)) \
    Q(!ggml_backend_dev_offload_op(NULL, NULL)) \
    Q(ggml_backend_event_new(NULL) == NULL) \
    Q(ggml_backend_reg_name(NULL) != (const char *) 1) \
    Q(ggml_backend_reg_dev_count(NULL) == 0) \
    Q(ggml_backend_reg_dev_get(NULL, 0) == NULL) \
    Q(ggml_backend_reg_get_proc_address(NULL, "x") == NULL) \
    Q(ggml_backend_reg_get_proc_address(ggml_backend_cpu_reg(), NULL) == NULL) \
    Q(ggml_backend_sched_get_n_splits(NULL) == 0) \
    Q(ggml_backend_sched_get_n_backends(NULL) == 0) \
    Q(ggml_backend_sched_get_n_copies(NULL) == 0) \
    Q(ggml_backend_sched_get_backend(NULL, 0) == NULL) \
    Q(ggml_backend_sched_get_buffer_size(NULL, NULL) == 0) \
    Q(ggml_backend_sched_get_buffer_type(NULL, NULL) == NULL) \
    Q(ggml_backend_sched_get_tensor_backend(NULL, NULL) == NULL) \
    Q(ggml_gallocr_get_buffer_size(NULL, 0) == 0) \
    Q(ggml_threadpool_get_n_threads(NULL) == 0) \
    Q((ggml_backend_event_free(NULL), true)) \
    Q((ggml_backend_buffer_free(NULL), true)) \
    Q((ggml_backend_free(NULL), true)) \
    Q((ggml_backend_sched_free(NULL), true)) \
    Q((ggml_gallocr_free(NULL), true)) \
    Q((ggml_threadpool_free(NULL), true)) \
    Q((ggml_free(NULL), true)) \
    Q((gguf_free(NULL), true)) \
    Q((ggml_graph_reset(NULL), true))

static void ask(void * user) {
    const int number = *(const int *) user;
    int       at     = 0;
    bool      holds  = true;
#define Q(...) \
    if (at++ == number) { holds = (__VA_ARGS__); }
    QUERIES
#undef Q
    _exit(holds ? 0 : 1);
}

static void null_queries(void) {
#define Q(...) #__VA_ARGS__,
    static const char * const texts[] = { QUERIES };
#undef Q
    static char wrong[400];
    for (int i = 0; i < (int) (sizeof texts / sizeof *texts); i++) {
        const int status = child_run(ask, &i);
        if (status != 0) {
            printf("  %s %s\n", texts[i], status == 1 ? "does not hold" : child_verdict(status));
            if (wrong[0] == '\0') { snprintf(wrong, sizeof wrong, "%s %s", texts[i], status == 1 ? "does not hold" : child_verdict(status)); }
        }
    }
    if (wrong[0] != '\0') { test_fails(__FILE__, __LINE__, "%s", wrong); }
}

static void numbers_out_of_range(void) {
    CHECK(ggml_backend_load("/nonexistent/backend.so") == NULL);
    CHECK(ggml_backend_load("") == NULL && ggml_backend_load(NULL) == NULL);
    CHECK(ggml_backend_load("/etc/passwd") == NULL);
    sink += (uintptr_t) ggml_type_name((enum ggml_type) 99) + (uintptr_t) ggml_type_name((enum ggml_type) -1);
    sink += (uintptr_t) ggml_status_to_string((enum ggml_status) 77) + (uintptr_t) gguf_type_name((enum gguf_type) 99);
    CHECK(!ggml_validate_row_data((enum ggml_type) 99, good, 64) && !ggml_validate_row_data(GGML_TYPE_COUNT, good, 64));
    if (quick) { return; } /* valgrind reports such a large request as an error */
    CHECK(ggml_init((struct ggml_init_params) { .mem_size = SIZE_MAX - 100, .mem_buffer = NULL, .no_alloc = true }) == NULL);
    CHECK(ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), SIZE_MAX) == NULL);
    CHECK(ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), SIZE_MAX - 8) == NULL);
}

/* An index that is out of range must not be used: the run ends in an error status, or in an abort that reaches the
 * callback, never in a crash. */
static void wild_index(void * user) {
    const int what = *(int *) user;
    struct ggml_context * c = ggml_init((struct ggml_init_params) { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = false });
    struct ggml_tensor *  a = ggml_new_tensor_2d(c, GGML_TYPE_F32, 32, 4), *ids = ggml_new_tensor_1d(c, GGML_TYPE_I32, 2), *out;
    ggml_set_f32(a, 1.0f);
    ggml_set_i32(ids, what % 2 == 0 ? 1 << 30 : -5);
    switch (what / 2) {
        case 0: out = ggml_get_rows(c, a, ids); break;
        case 1: out = ggml_set_rows(c, a, ggml_new_tensor_2d(c, GGML_TYPE_F32, 32, 2), ids); break;
        default: out = ggml_mul_mat_id(c, ggml_new_tensor_3d(c, GGML_TYPE_F32, 32, 4, 3), ggml_new_tensor_3d(c, GGML_TYPE_F32, 32, 1, 1), ggml_reshape_2d(c, ids, 2, 1)); break;
    }
    struct ggml_cgraph * g = ggml_new_graph(c);
    ggml_build_forward_expand(g, out);
    const enum ggml_status status = ggml_graph_compute_with_ctx(c, g, 1);
    ggml_free(c);
    _exit(status == GGML_STATUS_SUCCESS ? 0 : REFUSED);
}

/* Nodes that a host has damaged, each in a way that once led to a wild access. The memory of a tensor is its
 * buffer's. */
static void damaged_node(void * user) {
    const int what = *(int *) user;
    struct ggml_context * c = ggml_init((struct ggml_init_params) { .mem_size = 1u << 20, .mem_buffer = NULL, .no_alloc = true });
    struct ggml_tensor *  a = ggml_new_tensor_3d(c, GGML_TYPE_F32, 32, 4, 1), *b = ggml_new_tensor_3d(c, GGML_TYPE_F32, 32, 4, 1), *ids = ggml_new_tensor_3d(c, GGML_TYPE_I64, 4, 1, 1), *out;
    struct ggml_tensor *  blocks = ggml_new_tensor_1d(c, GGML_TYPE_Q8_0, 32);
    switch (what) {
        case 6:  out = ggml_set_rows(c, a, b, ids); break;
        case 7:  out = ggml_cpy(c, ggml_view_1d(c, a, 32, 0), blocks); break;
        case 8:  out = ggml_acc(c, a, ggml_view_2d(c, b, 8, 2, 128, 0), a->nb[1], a->nb[2], a->nb[3], 0); break;
        default: out = ggml_add(c, a, b); break;
    }
    struct ggml_cgraph * g = ggml_new_graph(c);
    ggml_build_forward_expand(g, out);
    ggml_backend_t        cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_buffer_t buf = ggml_backend_alloc_ctx_tensors(c, cpu);
    ggml_backend_buffer_clear(buf, 0);
    switch (what) {
        case 0:  a->data = (char *) a->data + 1; break;           /* data at an odd address */
        case 1:  a->nb[1] = 130; break;                           /* rows at odd addresses */
        case 2:  a->ne[1] = b->ne[1] = out->ne[1] = 1 << 20; break;
        case 3:  a->nb[3] = 1 << 30; a->ne[3] = b->ne[3] = out->ne[3] = 2; break;
        case 4:  out->nb[1] = 0; break;                           /* threads would write the same row */
        case 5:  a->ne[0] = b->ne[0] = out->ne[0] = 1ll << 62; a->ne[1] = b->ne[1] = out->ne[1] = 4; break;
        case 6:  b->nb[2] = 1ll << 40; b->ne[2] = out->ne[2] = 2; break; /* the stride of a dimension that was 1 */
        case 7:  out->nb[0] = 0; break;                           /* a block without bytes */
        case 8:  out->op_params[0] = -128; break;                 /* a negative stride in a parameter */
        case 9:  a->type = 4; break;                              /* a type that was given up */
        case 10: a->type = GGML_TYPE_COUNT; break;
        default: out->src[1] = NULL; break;
    }
    const enum ggml_status status = ggml_backend_graph_compute(cpu, g);
    ggml_backend_free(cpu);
    ggml_backend_buffer_free(buf);
    ggml_free(c);
    _exit(status == GGML_STATUS_FAILED ? REFUSED : 0);
}

static void damaged_nodes(void) {
    for (int what = 0; what < 12; what++) {
        const int status = child_run(damaged_node, &what);
        if (status != REFUSED) { test_fails(__FILE__, __LINE__, "case %d: %s", what, status == 0 ? "it was computed" : child_verdict(status)); }
    }
}

static void indices_out_of_range(void) {
    for (int what = 0; what < 6; what++) {
        const int status = child_run(wild_index, &what);
        if (status < 0) { test_fails(__FILE__, __LINE__, "case %d %s", what, child_verdict(status)); }
    }
}

int main(int argc, char ** argv) {
    (void) argv;
    quick = argc > 1;
    ggml_log_set(quiet, NULL);
    RUN(make_good);
    RUN(a_good_file);
    RUN(cut_off_anywhere);
    RUN(one_bit_flipped);
    RUN(one_byte_replaced);
    RUN(many_bytes_replaced);
    RUN(eight_bytes_replaced);
    RUN(made_by_hand);
    RUN(callbacks_that_lie);
    RUN(files_that_end_early);
    if (!quick) { RUN(no_memory_for_the_data); }
    RUN(bytes_that_are_no_text);
    RUN(values_of_another_type);
    if (!quick) { RUN(null_queries); }
    RUN(numbers_out_of_range);
    if (!quick) { RUN(indices_out_of_range); }
    if (!quick) { RUN(damaged_nodes); }
    return test_summary();
}
