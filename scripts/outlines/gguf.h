// gguf.h: the GGUF file format: key-value pairs and tensors.
//
// A file contains, in little-endian byte order:
//
// - the magic "GGUF", the version (32 bits), the number of tensors and the number of pairs (64 bits each);
// - for each pair: the key, the type of the value (32 bits) and the value;
// - for each tensor: the name, the number of dimensions (32 bits), the number of elements in each (64 bits), the type
//   (32 bits), and the offset of its data (64 bits);
// - the data of the tensors, aligned.
//
// A string is its length in bytes (64 bits), then the bytes. The alignment is GGUF_DEFAULT_ALIGNMENT, unless the pair
// "general.alignment" sets another.
//
// Everything in a file is checked before it is used. Functions identify a key or a tensor by its index, from 0 up. A
// function logs an error and returns 0, false, NULL, GGUF_TYPE_COUNT or GGML_TYPE_COUNT if there is no such index, or
// if the value has another type than the function reads. Functions that set or add something end the process if an
// argument is invalid.

#pragma once

#include "ggml.h"

#include <stdbool.h>
#include <stdint.h>

/// The first four bytes of a file.
#define GGUF_MAGIC "GGUF"

@ GGUF_VERSION

/// Key of the alignment of tensor data in bytes.
#define GGUF_KEY_GENERAL_ALIGNMENT "general.alignment"

@ GGUF_DEFAULT_ALIGNMENT

@{

@ enum gguf_type struct gguf_context struct gguf_init_params gguf_reader_callback_t

//
// Reading
//

@ gguf_init_empty gguf_init_from_file_ptr gguf_init_from_file gguf_init_from_buffer gguf_init_from_callback gguf_free

//
// Properties of the file
//

@ gguf_type_name gguf_get_version gguf_get_alignment gguf_get_data_offset

//
// Key-value pairs
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
// Changing key-value pairs
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
