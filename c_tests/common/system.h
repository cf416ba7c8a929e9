/* What tests use of POSIX, on Windows, too. */
#ifndef C_TESTS_SYSTEM_H
#define C_TESTS_SYSTEM_H

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <signal.h>
#include <stdlib.h>

#define NULL_DEVICE "NUL"
#define SIGKILL 9
#define pipe(ends) _pipe(ends, 4096, _O_BINARY)

/* Both environments: the C library has a copy. */
static inline int setenv(const char * name, const char * value, int overwrite) {
    return !overwrite && getenv(name) != NULL ? 0 : SetEnvironmentVariableA(name, value) && _putenv_s(name, value) == 0 ? 0 : -1;
}

static inline int unsetenv(const char * name) {
    return SetEnvironmentVariableA(name, NULL) && _putenv_s(name, "") == 0 ? 0 : -1;
}

/* Ends this process, as child.h finds it. */
static inline void end_by_signal(int signal) {
    TerminateProcess(GetCurrentProcess(), 0xc0000000u | (unsigned) signal);
}

/* An exported function of the library that has this one. */
static inline void * symbol(void * near_by, const char * name) {
    HMODULE module = NULL;
    GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, (const char *) near_by, &module);
    return (void *) (size_t) GetProcAddress(module, name);
}
#else
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define NULL_DEVICE "/dev/null"

static inline void end_by_signal(int signal) {
    kill(getpid(), signal);
}

static inline void * symbol(void * near_by, const char * name) {
    (void) near_by;
    return dlsym(RTLD_DEFAULT, name);
}
#endif

#endif
