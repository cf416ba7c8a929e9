/* The one function of this library of Windows that Rust's programs use. Debian 12's Wine (8.0) lacks it. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
    return RtlGenRandom(data, (ULONG) size);
}
