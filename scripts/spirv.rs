//! Writes every SPIR-V module of the library as `FOLDER/NAME`, for scripts/test_drivers.py:
//! `cargo run --features internals --example spirv -- FOLDER`.

use ggml::vulkan::shaders::modules::{Shader, names};
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(env::args().nth(1).ok_or("usage: spirv FOLDER")?);
    fs::create_dir_all(&folder)?;
    for name in names() {
        let words = Shader::named(name).map_err(|e| e.to_string())?.words();
        fs::write(folder.join(name), words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())?;
    }
    Ok(())
}
