/* Runs a part of a test in a child process, because it ends its process: by an assertion, or, in a broken library, by a
 * crash. */
#ifndef C_TESTS_CHILD_H
#define C_TESTS_CHILD_H

#include "ggml.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_HEARD = 42 }; /* the abort callback was called */

static void child_heard(const char * message) {
    (void) message;
    _exit(CHILD_HEARD);
}

static void child_quiet(enum ggml_log_level level, const char * text, void * user) {
    (void) level; (void) text; (void) user;
}

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

static inline const char * child_verdict(int status) {
    static char text[40];
    if (status == 0) { return "returns"; }
    if (status == CHILD_HEARD) { return "aborts"; }
    snprintf(text, sizeof text, status < 0 ? "dies of signal %d" : "exits with %d", status < 0 ? -status : status);
    return text;
}

#endif
