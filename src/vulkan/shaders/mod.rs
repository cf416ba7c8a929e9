//! Shaders: `modules` (the SPIR-V modules, made by `make shaders`), `id_deltas` (how they are stored), `interface`
//! (their push blocks and constants as structs, and lists of number formats), `kernel` (a module with its constants),
//! `pipeline` (pipelines and their cache on disk).

pub mod interface;
pub mod kernel;
pub mod modules;
pub mod pipeline;
mod id_deltas;

#[cfg(test)]
mod tests {
    use crate::quant::tables::{iq1, iq2, iq3};

    /// `grids.glsl` has two bits for the level of each of eight bytes, or three for each of four.
    #[test]
    fn grids_of_shaders_are_those_of_the_formats() {
        const MAGNITUDES: &[u8] = &[8, 25, 43];
        let eight = |grid: &[u64]| grid.iter().map(|p| p.to_le_bytes().to_vec()).collect::<Vec<_>>();
        let four = |grid: &[u32]| grid.iter().map(|p| p.to_le_bytes().to_vec()).collect::<Vec<_>>();
        let grids = [
            ("FMT == FMT_IQ2_XXS", eight(&iq2::IQ2XXS_GRID), 2, MAGNITUDES),
            ("FMT == FMT_IQ2_XS", eight(&iq2::IQ2XS_GRID), 2, MAGNITUDES),
            ("FMT == FMT_IQ2_S", eight(&iq2::IQ2S_GRID), 2, MAGNITUDES),
            ("FMT == FMT_IQ3_XXS", four(&iq3::IQ3XXS_GRID), 3, &[4, 12, 20, 28, 36, 44, 52, 62]),
            ("FMT == FMT_IQ3_S", four(&iq3::IQ3S_GRID), 3, &[1, 3, 5, 7, 9, 11, 13, 15]),
            ("FMT == FMT_IQ1_S || FMT == FMT_IQ1_M", eight(&iq1::IQ1S_GRID), 2, &[255, 0, 1]),
        ];
        let text = include_str!("../../../vulkan_shaders/grids.glsl");
        let mut parts = text.split("#if ").skip(1);
        for (condition, points, bits, levels) in grids {
            let level = |byte| levels.iter().position(|&l| l == byte).unwrap() as u32;
            let code = |point: &Vec<u8>| point.iter().rev().fold(0, |code, &byte| code << bits | level(byte));
            let codes: Vec<u32> = points.iter().map(code).collect();
            let words: Vec<u32> = codes.chunks(2).map(|pair| pair[0] | pair[1] << 16).collect();
            let (found, rest) = parts.next().unwrap().split_once('\n').unwrap();
            let numbers = rest.split("0x").skip(1).map(|n| u32::from_str_radix(&n[..8], 16).unwrap());
            assert_eq!(found, condition);
            assert!(rest.starts_with(&format!("const uint GRID[{}] = {{", words.len())), "{condition}");
            assert_eq!(numbers.collect::<Vec<_>>(), words, "{condition}");
        }
        assert!(parts.next().is_none());
    }
}
