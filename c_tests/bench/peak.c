/* Measures what the machine can do: peak [megabytes]. Prints lines "NAME<tab>NUMBER": operations per second and thread for each kind of product that the
 * processor has, in 10^9 (a multiplication and an addition are two), and the speed of reading a large array in 10^9 bytes per second, with one thread
 * and with one for each processor. The fastest of several rounds. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { CHAINS = 12, STEPS = 1 << 20, ROUNDS = 20, MAX_THREADS = 256 };

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* A loop of CHAINS independent chains, more than the latency of a product times the products per cycle. The empty assembly keeps the compiler from
 * computing less. */
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define LOOP(name, features, vector, zero, step)                         \
    __attribute__((target(features), noinline)) static void name(void) { \
        vector a = zero, b = zero, chain[CHAINS];                        \
        EACH(BEGIN)                                                      \
        __asm__ volatile("" : "+x"(a), "+x"(b));                         \
        for (int n = 0; n < STEPS; n++) { EACH(step) }                   \
    }
#define BEGIN(i)     chain[i] = a;
#define NEXT(i, sum) chain[i] = sum; __asm__ volatile("" : "+x"(chain[i]));
#define FMA_256(i)   NEXT(i, _mm256_fmadd_ps(a, b, chain[i]))
/* These products do not depend on the sum, so the compiler must not know that they are always the same. */
#define BYTES_256(i)               \
    __asm__ volatile("" : "+x"(a)); \
    NEXT(i, _mm256_add_epi32(chain[i], _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), b)))
#define FMA_512(i)   NEXT(i, _mm512_fmadd_ps(a, b, chain[i]))
#define VNNI_512(i)  NEXT(i, _mm512_dpbusd_epi32(chain[i], a, b))
#define VNNI_256(i)  NEXT(i, _mm256_dpbusd_avx_epi32(chain[i], a, b))
#define BF16_512(i)  NEXT(i, _mm512_dpbf16_ps(chain[i], (__m512bh) a, (__m512bh) b))

LOOP(fma_256, "avx2,fma", __m256, _mm256_setzero_ps(), FMA_256)
LOOP(bytes_256, "avx2", __m256i, _mm256_setzero_si256(), BYTES_256)
LOOP(fma_512, "avx512f", __m512, _mm512_setzero_ps(), FMA_512)
LOOP(vnni_512, "avx512f,avx512vnni", __m512i, _mm512_setzero_si512(), VNNI_512)
LOOP(vnni_256, "avx2,avxvnni", __m256i, _mm256_setzero_si256(), VNNI_256)
LOOP(bf16_512, "avx512f,avx512bf16", __m512, _mm512_setzero_ps(), BF16_512)

static void peak(const char * name, int present, void (*loop)(void), double operations) {
    if (!present) { return; }
    double best = 1e9;
    for (int r = 0; r < ROUNDS; r++) {
        const double start = seconds(CLOCK_THREAD_CPUTIME_ID);
        loop();
        const double took = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
        if (took < best) { best = took; }
    }
    printf("%s\t%.1f\n", name, 1e-9 * operations * CHAINS * STEPS / best);
}

struct part {
    const uint64_t *    data;
    size_t              n;
    pthread_barrier_t * start;
    uint64_t            sum;
    double              from, to;
};

static void * read_part(void * argument) {
    struct part *    part = argument;
    const uint64_t * p    = part->data;
    pthread_barrier_wait(part->start);
    /* The thread that created this one may be late, so its clock would miss what was read before it ran again. */
    part->from = seconds(CLOCK_MONOTONIC);
    uint64_t sums[8] = { 0 };
    for (size_t i = 0; i + 8 <= part->n; i += 8) {
        for (int j = 0; j < 8; j++) { sums[j] += p[i + j]; }
    }
    for (int j = 0; j < 8; j++) { part->sum += sums[j]; }
    part->to = seconds(CLOCK_MONOTONIC);
    return NULL;
}

static void bandwidth(const char * name, const uint64_t * data, size_t bytes, int threads) {
    double best = 1e9;
    for (int r = 0; r < ROUNDS; r++) {
        pthread_t         all[MAX_THREADS];
        struct part       parts[MAX_THREADS];
        pthread_barrier_t start;
        pthread_barrier_init(&start, NULL, (unsigned) threads);
        const size_t n = bytes / sizeof *data / (size_t) threads / 8 * 8;
        for (int t = 0; t < threads; t++) {
            parts[t] = (struct part) { data + (size_t) t * n, n, &start, 0, 0, 0 };
            if (pthread_create(&all[t], NULL, read_part, &parts[t]) != 0) { exit(1); }
        }
        double from = 1e300, to = 0;
        for (int t = 0; t < threads; t++) {
            pthread_join(all[t], NULL);
            if (parts[t].from < from) { from = parts[t].from; }
            if (parts[t].to > to) { to = parts[t].to; }
        }
        pthread_barrier_destroy(&start);
        if (to - from < best) { best = to - from; }
    }
    printf("%s\t%.1f\n", name, 1e-9 * (double) bytes / best);
}

int main(int argc, char ** argv) {
    const size_t bytes = (size_t) (argc > 1 ? atoi(argv[1]) : 1024) << 20;
    __builtin_cpu_init();
    peak("FMA 256", __builtin_cpu_supports("fma"), fma_256, 16);
    peak("FMA 512", __builtin_cpu_supports("avx512f"), fma_512, 32);
    peak("bytes 256", __builtin_cpu_supports("avx2"), bytes_256, 64);
    peak("VNNI 256", __builtin_cpu_supports("avxvnni"), vnni_256, 64);
    peak("VNNI 512", __builtin_cpu_supports("avx512vnni"), vnni_512, 128);
    peak("BF16 512", __builtin_cpu_supports("avx512bf16"), bf16_512, 64);
    uint64_t * data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) { return 1; }
    madvise(data, bytes, MADV_HUGEPAGE); /* as libraries may ask for */
    memset(data, 1, bytes);
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const int  threads    = processors < 1 ? 1 : processors > MAX_THREADS ? MAX_THREADS : (int) processors;
    bandwidth("read, 1 thread", data, bytes, 1);
    bandwidth("read, all threads", data, bytes, threads);
    return 0;
}
