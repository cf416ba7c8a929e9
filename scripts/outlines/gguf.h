// gguf.h: the GGUF file format: key-value pairs and tensors.
//
// A file holds, all little-endian: the magic "GGUF", a version (32 bits), the number of tensors and of pairs (64 bits
// each); then each pair: key, type of the value (32 bits), value; then each tensor: name, number of dimensions (32 bits),
// elements along each (64 bits), number format (32 bits), offset of its data (64 bits); then, aligned, the data. Texts
// are a length (64 bits) and bytes. The pair "general.alignment" changes the alignment from GGUF_DEFAULT_ALIGNMENT.
//
// Everything a file says is checked before it is used. A key or tensor is meant by its index, 0 up to the number of
// keys or tensors. Reading a value as another type than its own ends the process.

#pragma once

#include "ggml.h"

#include <stdbool.h>
#include <stdint.h>

/// First four bytes of a file.
#define GGUF_MAGIC "GGUF"

@ GGUF_VERSION

/// Key of the pair that sets the alignment of tensor data in bytes.
#define GGUF_KEY_GENERAL_ALIGNMENT "general.alignment"

@ GGUF_DEFAULT_ALIGNMENT

@{

@ enum gguf_type struct gguf_context struct gguf_init_params gguf_reader_callback_t

//
// Making and reading
//

@ gguf_init_empty gguf_init_from_file_ptr gguf_init_from_file gguf_init_from_buffer gguf_init_from_callback gguf_free

//
// File
//

@ gguf_type_name gguf_get_version gguf_get_alignment gguf_get_data_offset

//
// Pairs
//

@ gguf_get_n_kv gguf_find_key gguf_get_key gguf_get_kv_type gguf_get_arr_type

// Values

@ gguf_get_val_u8 gguf_get_val_i8 gguf_get_val_u16 gguf_get_val_i16 gguf_get_val_u32 gguf_get_val_i32 gguf_get_val_f32
@ gguf_get_val_u64 gguf_get_val_i64 gguf_get_val_f64 gguf_get_val_bool gguf_get_val_str gguf_get_val_data
@ gguf_get_arr_n gguf_get_arr_data gguf_get_arr_str

//
// Tensors
//

@ gguf_get_n_tensors gguf_find_tensor gguf_get_tensor_offset gguf_get_tensor_name gguf_get_tensor_ne
@ gguf_get_tensor_type gguf_get_tensor_size

//
// Changing pairs
//

@ gguf_remove_key gguf_set_val_u8 gguf_set_val_i8 gguf_set_val_u16 gguf_set_val_i16 gguf_set_val_u32 gguf_set_val_i32
@ gguf_set_val_f32 gguf_set_val_u64 gguf_set_val_i64 gguf_set_val_f64 gguf_set_val_bool gguf_set_val_str
@ gguf_set_arr_data gguf_set_arr_str gguf_set_kv

//
// Changing tensors
//

@ gguf_add_tensor gguf_set_tensor_type gguf_set_tensor_data

//
// Writing
//

@ gguf_write_to_file_ptr gguf_write_to_file gguf_get_meta_size gguf_get_meta_data

@}
