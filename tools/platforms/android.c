/* What Android's development kit puts into each library and program (crtbegin), for the checks of scripts/
 * check_platform.sh; and names of musl that the unwinder takes, which is that of musl there. */
#pragma GCC visibility push(default)
int *__errno(void);
void __assert2(const char *file, int line, const char *function, const char *what);
int __cxa_atexit(void (*function)(void *), void *data, void *library);
void __libc_init(void *arguments, void (*unused)(void), int (*main)(int, char **, char **), void *lists);
#pragma GCC visibility pop

static char this_library;

__attribute__((visibility("hidden"))) int atexit(void (*function)(void)) {
    return __cxa_atexit((void (*)(void *)) function, 0, &this_library);
}

__attribute__((visibility("hidden"))) int *__errno_location(void) {
    return __errno();
}

__attribute__((visibility("hidden"))) void __assert_fail(const char *what, const char *file, unsigned line, const char *function) {
    __assert2(file, (int) line, function, what);
    __builtin_trap();
}

#ifdef PROGRAM
int main(int, char **, char **);

void start_here(void *arguments) {
    static void (*none[])(void) = { (void (*)(void)) -1, 0 };
    static void *lists[] = { none, none, none, none };
    __libc_init(arguments, 0, main, lists);
}
__asm__(".globl _start\n_start: mov x0, sp\nb start_here\n");
#endif
