// A host that is compiled for Visual C++'s ABI and throws from callbacks: by Clang, without Microsoft's headers. The
// functions of the C and C++ library are Wine's.
extern "C" {
int    printf(const char *, ...);
void   exit(int);
typedef unsigned long long size_t_;
struct gguf_params { bool no_alloc; void ** context; };
void * gguf_init_from_callback(size_t_ (*)(void *, void *, size_t_, size_t_), void *, size_t_, size_t_, gguf_params);
void   ggml_log_set(void (*)(int, const char *, void *), void *);
}

// What Microsoft's static part of the library has.
extern "C" void * const vtable_of_type_info[2] __asm__("??_7type_info@@6B@") = { nullptr, nullptr };
extern "C" int          _fltused = 0;

static int alive, failed, passed;

struct thrown {
    int             number;
    const thrown *  self;
    char            much[64];
    explicit thrown(int n) : number(n), self(this) { alive++; }
    thrown(const thrown & o) : number(o.self == &o ? o.number : -1), self(this) { alive++; }
    ~thrown() { alive--; }
};
struct derived : virtual thrown {
    int more = 7;
    explicit derived(int n) : thrown(n) {}
};

static int cleaned;
struct cleans {
    ~cleans() { cleaned++; }
};

static int way;

static size_t_ reads(void *, void *, size_t_, size_t_) {
    cleans frame;
    switch (way) {
        case 1: throw thrown(1);
        case 2: throw derived(2);
        case 3: throw 3;
        case 4: try { throw thrown(4); } catch (...) { throw; }
        default: return 0;
    }
}

static void quiet(int, const char *, void *) {}

static int once() {
    try {
        gguf_init_from_callback(reads, nullptr, 0, 100, { true, nullptr });
    } catch (const derived & d) {
        return d.self == &d && d.more == 7 ? 10 * d.number : -1;
    } catch (const thrown & t) {
        return t.self == &t ? t.number : -1;
    } catch (int number) {
        return number;
    }
    return 0;
}

static void check(bool good, const char * what, int number) {
    printf("%s %s %d\n", good ? "PASS" : "FAIL", what, number);
    (good ? passed : failed)++;
}

extern "C" void begin() {
    ggml_log_set(quiet, nullptr);
    static const int expected[] = { 0, 1, 20, 3, 4 };
    for (way = 1; way <= 4; way++) {
        cleaned = 0;
        int first = once(), again = once();
        check(first == expected[way] && again == first, "what a callback throws is caught, way", way);
        check(alive == 0 && cleaned == 2, "all objects are destroyed, way", way);
    }
    way = 0;
    check(once() == 0, "and the library goes on, way", way);
    printf("%d passed, %d failed\n", passed, failed);
    exit(failed != 0);
}
