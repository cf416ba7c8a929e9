/* Memory that this process has, in KiB. */
#ifndef C_TESTS_RESIDENT_H
#define C_TESTS_RESIDENT_H

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <psapi.h>

static inline long resident_kib(void) {
    PROCESS_MEMORY_COUNTERS memory = { .cb = sizeof memory };
    GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof memory);
    return (long) (memory.WorkingSetSize / 1024);
}
#else
#include <stdio.h>
#include <unistd.h>

static inline long resident_kib(void) {
    long   pages = 0;
    FILE * f     = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%*d %ld", &pages) != 1) { pages = 0; }
    if (f != NULL) { fclose(f); }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}
#endif

#endif
