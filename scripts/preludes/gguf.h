// gguf.h: the GGUF file format: key-value pairs and tensors.
//
// A file holds, all little-endian: the magic "GGUF", a version (32 bits), the number of tensors and of pairs (64 bits
// each); then each pair: key, type of the value (32 bits), value; then each tensor: name, number of dimensions (32 bits),
// elements along each (64 bits), number format (32 bits), offset of its data (64 bits); then, aligned, the data. Texts
// are a length (64 bits) and bytes. The pair "general.alignment" changes the alignment from GGUF_DEFAULT_ALIGNMENT.
//
// Everything a file says is checked before it is used. A key or tensor is meant by its index, 0 up to the number of
// keys or tensors. Reading a value as another type than its own ends the process.

/// First four bytes of a file.
#define GGUF_MAGIC "GGUF"

/// Key of the pair that sets the alignment of tensor data in bytes.
#define GGUF_KEY_GENERAL_ALIGNMENT "general.alignment"
