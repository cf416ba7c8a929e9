/* Engines that take time, and streams that queue jobs for them.
 *
 * A device has three engines: copies to it, copies from it, computations. An engine does one job at a time, from
 * whichever stream. A stream is a queue with a thread, and its jobs run one after the other.
 *
 * Each job has a duration, and the ends of jobs are added up: a job starts when it has been queued, the job before it
 * in its stream has ended, the events that it waits for have happened and its engine is free, whichever is last. So a
 * thread that wakes up late delays no later job. */
#ifndef CARD_ENGINES_H
#define CARD_ENGINES_H

#include "settings.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>

typedef int64_t ns_t; /* of the monotonic clock */

static ns_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (ns_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

static ns_t later(ns_t a, ns_t b) { return a > b ? a : b; }

/* Sleeps until shortly before the deadline, then spins: a sleep alone ends some 50 microseconds late. */
static void sleep_until(ns_t deadline, double spin_ns) {
    ns_t rest = deadline - (ns_t) spin_ns;
    if (rest > now()) {
        struct timespec t = { rest / 1000000000, rest % 1000000000 };
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {}
    }
    while (now() < deadline) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

/* ---- engines ---- */

enum { TO_CARD, FROM_CARD, COMPUTE, ENGINES };

struct engine {
    pthread_mutex_t lock;
    ns_t     free_at;
    /* for the log */
    uint64_t jobs, bytes, pageable;
    ns_t     busy, late; /* `late`: work that took longer than its duration */
};

/* Takes the time of a job whose work has been done, from `begun` until now: the engine is busy for its duration, or as
 * long as the work was if that is longer. Waits for the end, and returns it. */
static ns_t engine_spend(struct engine * e, const struct settings * s, ns_t ready, ns_t begun, double duration) {
    ns_t work = now() - begun, modelled = (ns_t) duration;
    pthread_mutex_lock(&e->lock);
    ns_t start = later(ready, e->free_at), end = start + later(modelled, work);
    e->free_at = end;
    e->jobs++;
    e->busy += end - start;
    e->late += later(work - modelled, 0);
    pthread_mutex_unlock(&e->lock);
    sleep_until(end, s->spin_ns);
    return end;
}

/* ---- streams ---- */

#define KEPT_ENDS 1024

struct stream;

/* A place in a stream: after its first `number` jobs. */
struct mark {
    struct stream * stream;
    uint64_t number;
};

struct job {
    struct job * next;
    ns_t ready;
    struct mark after; /* waits for it, unless its stream is NULL */
    /* Does the work, waits for the job's end and returns it; NULL: a job that only waits. */
    ns_t (*run)(struct job *, ns_t ready);
    void (*end)(struct job *); /* frees what belongs to it; NULL: nothing does */
    struct card * card;
};

struct stream {
    struct stream * next_free;
    struct card * card;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct job * first, * last;
    uint64_t queued, done;
    ns_t ends[KEPT_ENDS]; /* of the last jobs */
};

/* Waits for a mark. Returns when it was reached; 0 if that is long ago. */
static ns_t mark_wait(struct mark m) {
    struct stream * s = m.stream;
    if (s == NULL) return 0;
    pthread_mutex_lock(&s->lock);
    while (s->done < m.number) pthread_cond_wait(&s->change, &s->lock);
    ns_t end = m.number > 0 && s->done - m.number < KEPT_ENDS ? s->ends[m.number % KEPT_ENDS] : 0;
    pthread_mutex_unlock(&s->lock);
    return end;
}

static struct mark stream_mark(struct stream * s) {
    pthread_mutex_lock(&s->lock);
    struct mark m = { s, s->queued };
    pthread_mutex_unlock(&s->lock);
    return m;
}

/* Queues a job, which must have been allocated with malloc. */
static struct mark stream_push(struct stream * s, struct job * job) {
    job->next = NULL;
    job->card = s->card;
    job->ready = now();
    pthread_mutex_lock(&s->lock);
    if (s->last != NULL) s->last->next = job; else s->first = job;
    s->last = job;
    struct mark m = { s, ++s->queued };
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    return m;
}

static void stream_wait_for(struct stream * s, struct mark m) {
    if (m.stream == NULL || m.stream == s) return;
    struct job * j = calloc(1, sizeof(*j));
    if (j == NULL) abort();
    j->after = m;
    stream_push(s, j);
}

static void * stream_main(void * arg) {
    struct stream * s = arg;
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    ns_t end = 0;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (s->first == NULL) pthread_cond_wait(&s->change, &s->lock);
        struct job * j = s->first;
        s->first = j->next;
        if (s->first == NULL) s->last = NULL;
        pthread_mutex_unlock(&s->lock);
        ns_t ready = later(later(j->ready, end), mark_wait(j->after));
        end = j->run != NULL ? j->run(j, ready) : ready;
        if (j->end != NULL) j->end(j);
        free(j);
        pthread_mutex_lock(&s->lock);
        s->done++;
        s->ends[s->done % KEPT_ENDS] = end;
        pthread_cond_broadcast(&s->change);
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

/* Starts a thread, above the priority of the host's threads if the system allows it: the engines of a real card do not
 * wait for a processor. Only for a card that does not compute. */
static bool stream_start(struct stream * s, bool realtime) {
    pthread_attr_t attributes;
    struct sched_param param = { .sched_priority = 1 };
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_RR);
    pthread_attr_setschedparam(&attributes, &param);
    bool started = realtime && pthread_create(&s->thread, &attributes, stream_main, s) == 0;
    pthread_attr_destroy(&attributes);
    return started || pthread_create(&s->thread, NULL, stream_main, s) == 0;
}

#endif
