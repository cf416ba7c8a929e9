/* Part of scripts/test_max_name.sh: a random network of stable-diffusion.cpp.
 *
 *   upscale MODEL.safetensors OUT    enlarges a random picture by four with an ESRGAN; OUT gets its bytes
 *   upscale -d A B                   compares two pictures: at most one level of 255 apart, and not plain
 */
#include "stable-diffusion.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 40, HEIGHT = 28, SCALE = 4 };

static unsigned state = 1;
/* A number from -1 to 1. */
static float number(void) {
    state = state * 1664525u + 1013904223u;
    return (float) (state >> 8) / (1 << 23) - 1.0f;
}

static unsigned char *whole(const char *path) {
    size_t size = (size_t) WIDTH * HEIGHT * SCALE * SCALE * 3;
    unsigned char *all = calloc(size + 1, 1);
    FILE *file = fopen(path, "rb");
    if (!all || !file || fread(all, 1, size + 1, file) != size) {
        fprintf(stderr, "%s is not a picture of %zu bytes\n", path, size);
        exit(2);
    }
    fclose(file);
    return all;
}
static int compare(const char *first, const char *second) {
    unsigned char *a = whole(first), *b = whole(second);
    size_t size = (size_t) WIDTH * HEIGHT * SCALE * SCALE * 3, differ = 0, ends = 0;
    int most = 0, least = 255, greatest = 0;
    for (size_t i = 0; i < size; i++) {
        int apart = abs(a[i] - b[i]);
        differ += apart != 0;
        most = apart > most ? apart : most;
        least = a[i] < least ? a[i] : least;
        greatest = a[i] > greatest ? a[i] : greatest;
        ends += a[i] == 0 || a[i] == 255;
    }
    printf("%zu values from %d to %d, %zu of them 0 or 255; %zu differ, at most by %d\n", size, least, greatest, ends, differ, most);
    /* Values that were clamped say little. Sums in another order move a value by far less than a level; where it is
     * next to the middle between two, it is rounded to the other one. */
    return most <= 1 && differ < size / 20 && ends < size / 10 && greatest - least > 100 ? 0 : 1;
}

static void shown(enum sd_log_level_t level, const char *text, void *user) {
    (void) user;
    if (level >= SD_LOG_WARN) {
        fputs(text, stderr);
    }
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "-d") == 0) {
        return compare(argv[2], argv[3]);
    }
    if (argc != 3) {
        return 2;
    }
    sd_set_log_callback(shown, NULL);
    unsigned char pixels[WIDTH * HEIGHT * 3];
    for (size_t i = 0; i < sizeof pixels; i++) {
        pixels[i] = (unsigned char) (127.5f + 127.0f * number());
    }
    upscaler_ctx_t *upscaler = new_upscaler_ctx(argv[1], false, 2, 0, "", "");
    if (!upscaler || get_upscale_factor(upscaler) != SCALE) {
        return 3;
    }
    sd_image_t out = upscale(upscaler, (sd_image_t) {WIDTH, HEIGHT, 3, pixels}, SCALE);
    FILE *file = fopen(argv[2], "wb");
    size_t size = (size_t) WIDTH * HEIGHT * SCALE * SCALE * 3;
    int ok = out.data && out.width == WIDTH * SCALE && out.height == HEIGHT * SCALE && file && fwrite(out.data, size, 1, file) && fclose(file) == 0;
    free_upscaler_ctx(upscaler);
    return ok ? 0 : 4;
}
