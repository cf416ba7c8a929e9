/* Files that need much memory: however little there is, reading one returns a context or NULL, and takes no more than a
 * small multiple of the file's size. The reader reads all files that the writer writes. */
#include "../common/check.h"
#include "../common/child.h"

#include "gguf.h"

#include <stdint.h>

static char path[64];

static void put(FILE * f, uint64_t value, size_t size) {
    fwrite(&value, size, 1, f); /* little endian, as the machine */
}

static void put_text(FILE * f, const char * text) {
    put(f, strlen(text), 8);
    fputs(text, f);
}

static FILE * begin(uint64_t n_tensors, uint64_t n_kv) {
    FILE * f = fopen(path, "wb");
    if (f == NULL) { abort(); }
    fputs("GGUF", f);
    put(f, 3, 4);
    put(f, n_tensors, 8);
    put(f, n_kv, 8);
    return f;
}

static size_t end(FILE * f) {
    const size_t size = (size_t) ftell(f);
    fclose(f);
    return size;
}

static size_t many_texts(unsigned n, const char * text) {
    FILE * f = begin(0, 1);
    put_text(f, "texts");
    put(f, GGUF_TYPE_ARRAY, 4);
    put(f, GGUF_TYPE_STRING, 4);
    put(f, n, 8);
    for (unsigned i = 0; i < n; i++) { put_text(f, text); }
    return end(f);
}

/* A single key, so long that its memory is the allocation that fails. */
static size_t long_key(uint64_t length) {
    static char piece[1 << 16];
    memset(piece, 'k', sizeof piece);
    FILE * f = begin(0, 1);
    put(f, length, 8);
    for (uint64_t done = 0; done < length; done += sizeof piece) { fwrite(piece, 1, sizeof piece, f); }
    put(f, GGUF_TYPE_UINT8, 4);
    put(f, 1, 1);
    return end(f);
}

static size_t many_keys(unsigned n) {
    FILE * f = begin(0, n);
    char   key[16];
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%05x", i);
        put_text(f, key);
        put(f, GGUF_TYPE_UINT8, 4);
        put(f, 1, 1);
    }
    return end(f);
}

static size_t many_tensors(unsigned n) {
    FILE * f = begin(n, 0);
    char   name[16];
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%05x", i);
        put_text(f, name);
        put(f, 0, 4); /* a scalar */
        put(f, GGML_TYPE_F32, 4);
        put(f, 32ull * i, 8);
    }
    put(f, 0, 4);
    while (ftell(f) % 32 != 0) { fputc(0, f); }
    return end(f);
}

static size_t from_system(const char * file, const char * line) {
    FILE * f     = fopen(file, "r");
    char   text[256];
    size_t value = 0;
    while (f != NULL && fgets(text, sizeof text, f) != NULL) {
        if (strncmp(text, line, strlen(line)) == 0) { value = (size_t) strtoull(text + strlen(line), NULL, 10) << 10; }
    }
    if (f != NULL) { fclose(f); }
    return value;
}

struct attempt {
    size_t limit;  /* bytes of address space beyond what there is; 0: no limit */
    bool   tensors;
};

enum { READ = 0, REFUSED = 1 };

static void read_it(void * user) {
    const struct attempt * a = (const struct attempt *) user;
    if (a->limit != 0) {
        const rlim_t        size  = (rlim_t) (from_system("/proc/self/status", "VmSize:") + a->limit);
        const struct rlimit limit = { size, size };
        setrlimit(RLIMIT_AS, &limit);
    }
    struct ggml_context * c = NULL;
    struct gguf_context * g = gguf_init_from_file(path, (struct gguf_init_params) { .no_alloc = true, .ctx = a->tensors ? &c : NULL });
    if (g == NULL) { _exit(REFUSED); }
    gguf_free(g);
    ggml_free(c);
    _exit(READ);
}

/* More memory each time, until it is enough. */
static void however_little_there_is(const char * what, bool tensors) {
    int           status = REFUSED;
    unsigned      tries  = 0;
    struct attempt a     = { .limit = 1u << 16, .tensors = tensors };
    for (; a.limit < (size_t) 1 << 32 && status == REFUSED; a.limit += a.limit / 4, tries++) { status = child_run(read_it, &a); }
    if (status != READ) { test_fails(__FILE__, __LINE__, "%s, with %zu KiB: %s", what, a.limit >> 10, child_verdict(status)); }
    if (tries < 5) { test_fails(__FILE__, __LINE__, "%s: only %u limits tried", what, tries); }
}

static void no_memory_is_no_end(void) {
    many_texts(1u << 20, "");
    however_little_there_is("empty texts", false);
    many_texts(1u << 18, "a text of some length, more than a pointer");
    however_little_there_is("texts", false);
    long_key(1u << 26);
    however_little_there_is("a long key", false);
    many_keys(1u << 16);
    however_little_there_is("keys", false);
    many_tensors(1u << 15);
    however_little_there_is("tensors", false);
    however_little_there_is("tensors in a context", true);
    remove(path);
}

static size_t most;

static void measure(void * unused) {
    (void) unused;
    const size_t before = from_system("/proc/self/status", "VmHWM:");
    struct gguf_context * g = gguf_init_from_file(path, (struct gguf_init_params) { .no_alloc = true, .ctx = NULL });
    const size_t taken = from_system("/proc/self/status", "VmHWM:") - before;
    if (g == NULL) { _exit(2); }
    gguf_free(g);
    _exit(taken <= most ? 0 : (int) (3 + (taken >> 20) % 250));
}

static void memory_is_a_small_multiple_of_the_file(void) {
    size_t size = many_texts(1u << 20, ""); /* 8 MiB */
    most        = 2 * size;
    CHECK_EQ(child_run(measure, NULL), 0);
    size = many_texts(1u << 18, "a text of some length, more than a pointer");
    most = 3 * size;
    CHECK_EQ(child_run(measure, NULL), 0);
    size = many_keys(1u << 17);
    most = 12 * size;
    CHECK_EQ(child_run(measure, NULL), 0);
    size = many_tensors(1u << 15);
    most = 20 * size;
    CHECK_EQ(child_run(measure, NULL), 0);
    remove(path);
}

/* A source without a known end, for a file that claims to be large: 2^30 numbers, of which 100 come. */
static unsigned char few[256];

static size_t give(void * user, void * out, uint64_t offset, size_t n) {
    (void) user;
    if (offset >= sizeof few) { return 0; }
    const size_t rest = sizeof few - (size_t) offset, some = n < rest ? n : rest;
    memcpy(out, few + offset, some);
    return some;
}

static void read_what_lies(void * unused) {
    (void) unused;
    const size_t before = from_system("/proc/self/status", "VmHWM:");
    struct gguf_context * g = gguf_init_from_callback(give, NULL, 0, UINT64_MAX / 2, (struct gguf_init_params) { .no_alloc = true, .ctx = NULL });
    const size_t taken = from_system("/proc/self/status", "VmHWM:") - before;
    _exit(g != NULL ? 1 : taken < (8u << 20) ? 0 : 2);
}

static void a_length_is_believed_when_its_bytes_come(void) {
    static const struct { int type; uint64_t length; } lies[] = { { GGUF_TYPE_UINT64, 1u << 27 }, { GGUF_TYPE_UINT8, 1u << 30 }, { GGUF_TYPE_STRING, 1u << 27 } };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        FILE * f = begin(0, 1);
        put_text(f, "lie");
        put(f, GGUF_TYPE_ARRAY, 4);
        put(f, (uint64_t) lies[i].type, 4);
        put(f, lies[i].length, 8);
        end(f);
        f = fopen(path, "rb");
        memset(few, 0, sizeof few);
        CHECK(f != NULL && fread(few, 1, sizeof few, f) > 0);
        if (f != NULL) { fclose(f); }
        CHECK_EQ(child_run(read_what_lies, NULL), 0);
    }
    FILE * f = begin(0, 1); /* and a text of 1 GiB */
    put_text(f, "lie");
    put(f, GGUF_TYPE_STRING, 4);
    put(f, 1u << 30, 8);
    end(f);
    f = fopen(path, "rb");
    CHECK(f != NULL && fread(few, 1, sizeof few, f) > 0);
    if (f != NULL) { fclose(f); }
    CHECK_EQ(child_run(read_what_lies, NULL), 0);
    remove(path);
}

static uint32_t alignment;

/* exits with 0 if the file was written and read */
static void write_and_read(void * unused) {
    (void) unused;
    struct gguf_context * g = gguf_init_empty();
    gguf_set_val_u32(g, "general.alignment", alignment);
    /* A smaller alignment than the default becomes the default. */
    const size_t expected = alignment > GGUF_DEFAULT_ALIGNMENT ? alignment : GGUF_DEFAULT_ALIGNMENT;
    if (gguf_get_alignment(g) != expected || gguf_get_meta_size(g) % expected != 0) { _exit(3); }
    if (alignment > (16u << 20)) { _exit(gguf_get_meta_size(g) == expected ? 0 : 4); } /* a file of gigabytes */
    if (!gguf_write_to_file(g, path, false)) { _exit(1); }
    gguf_free(g);
    g = gguf_init_from_file(path, (struct gguf_init_params) { .no_alloc = true, .ctx = NULL });
    _exit(g != NULL && gguf_get_alignment(g) == expected ? 0 : 2);
}

static void every_alignment_that_is_written_is_read(void) {
    for (int bit = 0; bit < 32; bit++) {
        alignment        = 1u << bit;
        const int status = child_run(write_and_read, NULL);
        if (status != 0) { test_fails(__FILE__, __LINE__, "alignment 2^%d %s", bit, child_verdict(status)); }
    }
    remove(path);
}

int main(void) {
    snprintf(path, sizeof path, "/tmp/ggml-memory-%d.gguf", (int) getpid());
    RUN(no_memory_is_no_end);
    RUN(memory_is_a_small_multiple_of_the_file);
    RUN(a_length_is_believed_when_its_bytes_come);
    RUN(every_alignment_that_is_written_is_read);
    return test_summary();
}
