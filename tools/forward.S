/* The head of the files beside libggml-base, whose jumps scripts/forward.sh lists. */
/* The scratch registers are those that the ABI leaves to jumps between libraries: no argument lies there. */
#if defined(__ILP32__)
#    define FORWARD(table, offset, name)
#elif defined(__APPLE__) && defined(__x86_64__)
#    define FORWARD(table, offset, name) \
        .globl _##name; _##name: .cfi_startproc; \
        movq _##table@GOTPCREL(%rip), %r11; jmp *offset(%r11); .cfi_endproc
#elif defined(__APPLE__) && defined(__aarch64__)
/* There a semicolon begins a comment. */
#    define FORWARD(table, offset, name) \
        .globl _##name %% .p2align 2 %% _##name: %% .cfi_startproc %% \
        adrp x16, _##table@GOTPAGE %% ldr x16, [x16, _##table@GOTPAGEOFF] %% ldr x16, [x16, offset] %% br x16 %% \
        .cfi_endproc
#elif defined(__x86_64__)
#    define FORWARD(table, offset, name) \
        .globl name; .type name, @function; name: .cfi_startproc; \
        movq table@GOTPCREL(%rip), %r11; jmp *offset(%r11); .cfi_endproc; .size name, . - name
#elif defined(__aarch64__)
#    define FORWARD(table, offset, name) \
        .globl name; .type name, %function; name: .cfi_startproc; \
        adrp x16, :got:table; ldr x16, [x16, :got_lo12:table]; ldr x16, [x16, offset]; br x16; \
        .cfi_endproc; .size name, . - name
#else
#    define FORWARD(table, offset, name)
#endif
#ifdef __ELF__
    .section .note.GNU-stack, "", %progbits
#endif
    .text
