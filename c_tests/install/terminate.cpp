// Calls `__cxa_call_terminate` of libggml as compilers do where an exception leaves a function that is noexcept. The
// handler of the program must get control: it ends the process with 7.
#include <cstddef>
#include <cstdlib>
#include <exception>

extern "C" void __cxa_call_terminate(void *exception);
extern "C" void *__cxa_allocate_exception(std::size_t bytes);

int main() {
    std::set_terminate([] { std::_Exit(7); });
    // The unwinder's part of an exception is before its value.
    const std::size_t unwinder = 32;
    __cxa_call_terminate(static_cast<char *>(__cxa_allocate_exception(1)) - unwinder);
}
