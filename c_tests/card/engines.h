/* Engines that take time, and streams that queue jobs for them.
 *
 * A device has three engines: copies to it, copies from it, computations. An engine does one job at a time, from
 * whichever stream. A stream is a queue with a thread, and its jobs run one after the other.
 *
 * Each job has a duration, and the ends of jobs are added up: a job starts when it has been queued, the job before it
 * in its stream has ended, the events that it waits for have happened and its engine is free, whichever is last. So a
 * thread that wakes up late delays no later job.
 *
 * Threads that wake up stop the host's threads on their processors, which a card does not. Where times count, one
 * thread therefore does the work of all streams and always looks at the clock, on a processor that the host leaves to
 * it (CARD_PROCESSOR). The host looks at the clock while it waits, too, as CUDA lets it. */
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

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Sleeps until shortly before the deadline, then spins: a sleep alone ends some 50 microseconds late. */
static void sleep_until(ns_t deadline, const struct settings * s) {
    ns_t rest = s->processor >= 0 ? 0 : deadline - (ns_t) s->spin_ns;
    if (rest > now()) {
        struct timespec t = { rest / 1000000000, rest % 1000000000 };
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {}
    }
    while (now() < deadline) relax();
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
 * long as the work was if that is longer. Returns the end, which is to be waited for. */
static ns_t engine_spend(struct engine * e, ns_t ready, ns_t begun, double duration) {
    ns_t work = now() - begun, modelled = (ns_t) duration;
    pthread_mutex_lock(&e->lock);
    ns_t start = later(ready, e->free_at), end = start + later(modelled, work);
    e->free_at = end;
    e->jobs++;
    e->busy += end - start;
    e->late += later(work - modelled, 0);
    pthread_mutex_unlock(&e->lock);
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
    ns_t (*run)(struct job *, ns_t ready); /* does the work, and returns the job's end; NULL: a job that only waits */
    void (*end)(struct job *); /* frees what belongs to it; NULL: nothing does */
    struct card * card;
};

struct stream {
    struct stream * next_free, * next;
    struct card * card;
    const struct settings * settings;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct job * first, * last;
    uint64_t queued;
    _Atomic uint64_t done;
    ns_t ends[KEPT_ENDS]; /* of the last jobs */
    /* for the one thread: the job that takes its time, and when that or the last one ends */
    struct job * current;
    ns_t end;
};

/* The one thread, and the streams that it serves. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct stream * _Atomic streams;
    bool asleep; /* nothing has been queued for long */
    bool running;
} conductor = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, false, false };

static bool mark_reached(struct mark m) { return m.stream == NULL || m.stream->done >= m.number; }

/* Waits for a mark. Returns when it was reached; 0 if that is long ago. */
static ns_t mark_wait(struct mark m) {
    struct stream * s = m.stream;
    if (s == NULL) return 0;
    while (s->settings->processor >= 0 && !mark_reached(m)) relax();
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
    if (s->settings->processor >= 0) {
        pthread_mutex_lock(&conductor.lock);
        if (conductor.asleep) pthread_cond_signal(&conductor.change);
        conductor.asleep = false;
        pthread_mutex_unlock(&conductor.lock);
    }
    return m;
}

static void stream_wait_for(struct stream * s, struct mark m) {
    if (m.stream == NULL || m.stream == s) return;
    struct job * j = calloc(1, sizeof(*j));
    if (j == NULL) abort();
    j->after = m;
    stream_push(s, j);
}

static void take_first(struct stream * s) {
    s->first = s->first->next;
    if (s->first == NULL) s->last = NULL;
}

static void finish(struct stream * s, struct job * j, ns_t end) {
    if (j->end != NULL) j->end(j);
    free(j);
    pthread_mutex_lock(&s->lock);
    s->ends[(s->done + 1) % KEPT_ENDS] = end;
    s->done++;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
}

static void * stream_main(void * arg) {
    struct stream * s = arg;
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    ns_t end = 0;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (s->first == NULL) pthread_cond_wait(&s->change, &s->lock);
        struct job * j = s->first;
        take_first(s);
        pthread_mutex_unlock(&s->lock);
        ns_t ready = later(later(j->ready, end), mark_wait(j->after));
        end = j->run != NULL ? j->run(j, ready) : ready;
        sleep_until(end, s->settings);
        finish(s, j, end);
    }
    return NULL;
}

/* Begins or ends a job of a stream, if it is time. Returns whether the stream has one. */
static bool stream_step(struct stream * s) {
    if (s->current == NULL) {
        pthread_mutex_lock(&s->lock);
        struct job * j = s->first;
        bool begins = j != NULL && mark_reached(j->after);
        if (begins) take_first(s);
        pthread_mutex_unlock(&s->lock);
        if (!begins) return j != NULL;
        ns_t ready = later(later(j->ready, s->end), mark_wait(j->after));
        s->end = j->run != NULL ? j->run(j, ready) : ready;
        s->current = j;
    }
    if (now() < s->end) return true;
    struct job * j = s->current;
    s->current = NULL;
    finish(s, j, s->end);
    return true;
}

static void * conductor_main(void * arg) {
    const ns_t patience = 2000000;
    (void) arg;
    for (ns_t last = now();;) {
        bool any = false;
        for (struct stream * s = conductor.streams; s != NULL; s = s->next) any |= stream_step(s);
        if (any) { last = now(); continue; }
        relax();
        if (now() - last < patience) continue;
        pthread_mutex_lock(&conductor.lock);
        conductor.asleep = true;
        pthread_mutex_unlock(&conductor.lock);
        /* What was queued before that has woken no one. */
        for (struct stream * s = conductor.streams; s != NULL; s = s->next) any |= stream_step(s);
        pthread_mutex_lock(&conductor.lock);
        while (!any && conductor.asleep) pthread_cond_wait(&conductor.change, &conductor.lock);
        conductor.asleep = false;
        pthread_mutex_unlock(&conductor.lock);
        last = now();
    }
    return NULL;
}

/* The stream joins those of the one thread, which is started with the first. */
static bool conductor_serves(struct stream * s) {
    pthread_mutex_lock(&conductor.lock);
    if (!conductor.running) {
        pthread_t thread;
        conductor.running = pthread_create(&thread, NULL, conductor_main, NULL) == 0;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t) s->settings->processor, &one);
        if (conductor.running && pthread_setaffinity_np(thread, sizeof(one), &one) != 0) {
            fprintf(stderr, "CARD_PROCESSOR=%d: there is no such processor; the card's thread may run on any\n", s->settings->processor);
        }
    }
    if (conductor.running) {
        s->next = conductor.streams;
        conductor.streams = s;
    }
    pthread_mutex_unlock(&conductor.lock);
    return conductor.running;
}

/* Starts a thread, above the priority of the host's threads if the system allows it: the engines of a real card do not
 * wait for a processor. Only for a card that does not compute. */
static bool stream_start(struct stream * s, bool realtime) {
    if (s->settings->processor >= 0) return conductor_serves(s);
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
