/** The version of ggml whose interface the library has. */
export const version: string;
/** The folder with bin, include and lib, for CMAKE_PREFIX_PATH. */
export const prefix: string;
/** The folder of ggml-info and ggml-rpc-server. */
export const bin: string;
/** The folder of the shared libraries: libggml.so.0, libggml-base.so.0 and those of the backends. */
export const lib: string;
/** The folder of the headers. */
export const include: string;
/** The folder of ggml-config.cmake, for ggml_DIR. */
export const cmakeDir: string;
/** The folder of ggml.pc, for PKG_CONFIG_PATH. */
export const pkgconfigDir: string;
