/* Runs a part of a test in a child process, because it ends its process: by an assertion, or, in a broken library, by a
 * crash. */
#ifndef C_TESTS_CHILD_H
#define C_TESTS_CHILD_H

#include "ggml.h"

#include "system.h"

#include <stdio.h>
#include <string.h>
#ifndef _WIN32
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#endif
#include <unistd.h>

enum { CHILD_HEARD = 42 }; /* the abort callback was called */

static void child_heard(const char * message) {
    (void) message;
    _exit(CHILD_HEARD);
}

static void child_quiet(enum ggml_log_level level, const char * text, void * user) {
    (void) level; (void) text; (void) user;
}

#ifdef _WIN32
/* As below. Windows has no fork: the program starts once more, and in that process the call that is due does the work,
 * while those before it do nothing. So a program must make the same calls each time. Nothing that it prints is seen. */
static inline int child_run(void (*work)(void *), void * user) {
    static int calls;
    const char * due = getenv("C_TESTS_CHILD");
    calls++;
    if (due != NULL) {
        if (atoi(due) != calls) {
            return 0;
        }
        ggml_set_abort_callback(child_heard);
        ggml_log_set(child_quiet, NULL);
        work(user);
        _exit(0);
    }
    char number[16];
    snprintf(number, sizeof number, "%d", calls);
    SetEnvironmentVariableA("C_TESTS_CHILD", number);
    SECURITY_ATTRIBUTES inherited = { sizeof inherited, NULL, TRUE };
    STARTUPINFOA start;
    memset(&start, 0, sizeof start);
    start.cb      = sizeof start;
    start.dwFlags = STARTF_USESTDHANDLES;
    start.hStdOutput = start.hStdError = CreateFileA("NUL", GENERIC_WRITE, FILE_SHARE_WRITE, &inherited, OPEN_EXISTING, 0, NULL);
    PROCESS_INFORMATION process;
    const BOOL started = CreateProcessA(NULL, GetCommandLineA(), NULL, NULL, TRUE, 0, NULL, NULL, &start, &process);
    SetEnvironmentVariableA("C_TESTS_CHILD", NULL);
    CloseHandle(start.hStdOutput);
    DWORD status = 0;
    if (!started) {
        return -1000;
    }
    if (WaitForSingleObject(process.hProcess, 60000) != WAIT_OBJECT_0) {
        TerminateProcess(process.hProcess, 14);
        status = 0xc0000000 | SIGTERM;
    } else {
        GetExitCodeProcess(process.hProcess, &status);
    }
    CloseHandle(process.hThread);
    CloseHandle(process.hProcess);
    /* 3 is what abort() leaves; exceptions have the highest bits. */
    return status == 3 ? -SIGABRT : status >= 0xc0000000 ? -(int) (status & 0xffff) : (int) status;
}
#else
/* Returns the exit status of `work`, or minus the signal that ended it. Log and abort messages do not reach the
 * terminal. */
static inline int child_run(void (*work)(void *), void * user) {
    fflush(stdout);
    fflush(stderr);
    const pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit no_core = { 0, 0 };
        setrlimit(RLIMIT_CORE, &no_core);
        alarm(60);
        ggml_set_abort_callback(child_heard);
        ggml_log_set(child_quiet, NULL);
        work(user);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return -1000;
    }
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
#endif

static inline const char * child_verdict(int status) {
    static char text[40];
    if (status == 0) { return "returns"; }
    if (status == CHILD_HEARD) { return "aborts"; }
    snprintf(text, sizeof text, status < 0 ? "dies of signal %d" : "exits with %d", status < 0 ? -status : status);
    return text;
}

#endif
