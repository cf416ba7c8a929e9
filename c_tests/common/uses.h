/* What this process has: memory in KiB, descriptors (on Windows handles) and threads. And whether it grows. */
#ifndef C_TESTS_USES_H
#define C_TESTS_USES_H

#include "check.h"
#include "resident.h"

#ifdef _WIN32
#include <winternl.h>
#else
#include <dirent.h>
#endif

#ifdef _WIN32
/* SystemExtendedHandleInformation, which MinGW's headers lack. */
#define EXTENDED_HANDLES ((SYSTEM_INFORMATION_CLASS) 64)

/* The system's lists of processes and of handles: GetProcessHandleCount of Wine 8 says 0, and its list of processes the
 * size of the table that the handles are in. */
static char uses_bytes[1 << 24];

static inline long own_threads(void) {
    const SYSTEM_PROCESS_INFORMATION * of = (const void *) uses_bytes;
    CHECK(NtQuerySystemInformation(SystemProcessInformation, uses_bytes, sizeof uses_bytes, NULL) == 0);
    while ((DWORD) (size_t) of->UniqueProcessId != GetCurrentProcessId() && of->NextEntryOffset != 0) {
        of = (const void *) ((const char *) of + of->NextEntryOffset);
    }
    return (long) of->NumberOfThreads;
}

static inline long own_handles(void) {
    struct handle {
        void *    object;
        ULONG_PTR process, value;
        ULONG     access, type, attributes, reserved;
    };
    const struct {
        ULONG_PTR     n, reserved;
        struct handle all[];
    } * handles = (const void *) uses_bytes;
    long n = 0;
    CHECK(NtQuerySystemInformation(EXTENDED_HANDLES, uses_bytes, sizeof uses_bytes, NULL) == 0);
    for (ULONG_PTR i = 0; i < handles->n; i++) { n += handles->all[i].process == GetCurrentProcessId(); }
    return n;
}

static inline void uses(long now[3]) {
    now[0] = resident_kib();
    /* Each thread has a handle, and they are counted apart. On a loaded machine threads start and end between the two
     * lists, which then say nothing together. */
    do {
        now[2] = own_threads();
        now[1] = own_handles() - now[2];
    } while (own_threads() != now[2]);
}
#else
static inline long entries(const char * folder) {
    long  n = 0;
    DIR * d = opendir(folder);
    while (d != NULL && readdir(d) != NULL) { n++; }
    if (d != NULL) { closedir(d); }
    return n;
}

/* Memory in KiB, descriptors and threads. */
static inline void uses(long now[3]) {
    now[0] = resident_kib();
    now[1] = entries("/proc/self/fd");
    now[2] = entries("/proc/self/task");
}
#endif

/* The first third of a run is for caches, arenas of the C library and spare threads. Of the rest, the lowest value of
 * the first part is compared with that of the last part. */
struct growth {
    long now[3], early[3], late[3];
};

/* `part` of the run is done. */
static inline void growth_note(struct growth * g, double part) {
    uses(g->now);
    for (int i = 0; i < 3; i++) {
        long * into = part > 0.33 && part < 0.5 ? &g->early[i] : part > 0.8 ? &g->late[i] : NULL;
        if (into != NULL && (*into == 0 || g->now[i] < *into)) { *into = g->now[i]; }
    }
}

static inline void growth_check(const struct growth * g) {
    const long *early = g->early, *late = g->late;
    printf("note resident %ld KiB, then %ld KiB; descriptors %ld, %ld; threads %ld, %ld\n", early[0], late[0], early[1], late[1], early[2], late[2]);
    CHECK(late[0] <= early[0] + early[0] / 10 + 16384);
    CHECK(late[1] <= early[1] + 2);
    CHECK(late[2] <= early[2] + 4);
}

#endif
