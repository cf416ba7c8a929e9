/* The one function of this library of Windows that Rust's programs use. Wine has it since version 8.10; Debian 12's is
 * older. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
    return RtlGenRandom(data, (ULONG) size);
}
