/* The devices of a layer. Included after `struct device`, whose `key` is the first word of the dispatchable handles of
 * a device: a pointer of the loader's, the same for the device, its queues and its command buffers. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_DEVICES = 64 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[MOST_DEVICES];
static size_t n_devices;

/* Keeps a device that `handle` is of. Ends the process if there are too many. */
static void keep_device(handle_t handle, struct device d) {
    d.key = *(void **) handle;
    pthread_mutex_lock(&lock);
    if (n_devices == MOST_DEVICES) {
        fprintf(stderr, "layer: too many devices\n");
        abort();
    }
    devices[n_devices++] = d;
    pthread_mutex_unlock(&lock);
}

/* The newest device with the key of a handle: the loader may reuse the key of an older one. */
static const struct device * device_of(handle_t handle) {
    pthread_mutex_lock(&lock);
    const struct device * d = NULL;
    for (size_t i = n_devices; i > 0 && d == NULL; i--) {
        if (devices[i - 1].key == *(void **) handle) { d = &devices[i - 1]; }
    }
    pthread_mutex_unlock(&lock);
    if (d == NULL) {
        fprintf(stderr, "layer: unknown device\n");
        abort();
    }
    return d;
}
