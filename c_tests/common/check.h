/* For all tests: CHECK inside a test, RUN around it, test_summary() at the end. */
#ifndef C_TESTS_CHECK_H
#define C_TESTS_CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int  tests_passed, tests_failed;
static char test_why[512]; /* why the running test fails; empty while it does not */

/* Notes the first reason for which the running test fails. */
static inline void test_fails(const char * file, int line, const char * format, ...) {
    if (test_why[0] == '\0') {
        const char * base = strrchr(file, '/');
        int          n    = snprintf(test_why, sizeof test_why, "%s:%d: ", base != NULL ? base + 1 : file, line);
        va_list      args;
        va_start(args, format);
        vsnprintf(test_why + n, sizeof test_why - (size_t) n, format, args);
        va_end(args);
    }
}

static inline void test_begin(void) {
    test_why[0] = '\0';
}

static inline void test_end(const char * name) {
    if (test_why[0] == '\0') {
        tests_passed++;
        printf("PASS %s\n", name);
    } else {
        tests_failed++;
        printf("FAIL %s: %s\n", name, test_why);
    }
    fflush(stdout);
}

#define CHECK(condition) ((condition) ? (void) 0 : test_fails(__FILE__, __LINE__, "not true: %s", #condition))

/* Integers and pointers' differences, shown when they differ. */
#define CHECK_EQ(a, b)                                                                                     \
    do {                                                                                                   \
        const long long check_a = (long long) (a), check_b = (long long) (b);                              \
        if (check_a != check_b) {                                                                          \
            test_fails(__FILE__, __LINE__, "%s is %lld, expected %s = %lld", #a, check_a, #b, check_b);    \
        }                                                                                                  \
    } while (0)

#define CHECK_STR(a, b)                                                                                    \
    do {                                                                                                   \
        const char *check_a = (a), *check_b = (b);                                                         \
        if (check_a == NULL || strcmp(check_a, check_b) != 0) {                                            \
            test_fails(__FILE__, __LINE__, "%s is \"%s\", expected \"%s\"", #a, check_a == NULL ? "NULL" : check_a, check_b); \
        }                                                                                                  \
    } while (0)

#define CHECK_NEAR(a, b, tolerance)                                                                        \
    do {                                                                                                   \
        const double check_a = (double) (a), check_b = (double) (b);                                       \
        if (!(check_a - check_b <= (tolerance) && check_b - check_a <= (tolerance))) {                     \
            test_fails(__FILE__, __LINE__, "%s is %g, expected %g", #a, check_a, check_b);                 \
        }                                                                                                  \
    } while (0)

/* Whether the environment variable TESTS_ONLY, names separated by spaces, contains this name or is not set. */
static inline bool test_wanted(const char * name) {
    const char * only = getenv("TESTS_ONLY");
    const size_t n    = strlen(name);
    for (const char * at = only; at != NULL && (at = strstr(at, name)) != NULL; at += n) {
        if ((at == only || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) { return true; }
    }
    return only == NULL;
}

#define RUN(test)                 \
    do {                          \
        if (test_wanted(#test)) { \
            test_begin();         \
            test();               \
            test_end(#test);      \
        }                         \
    } while (0)

static inline int test_summary(void) {
    printf("%d passed, %d failed\n", tests_passed, tests_failed);
    return tests_failed == 0 ? 0 : 1;
}

#endif
