//! How packs store the ids of SPIR-V modules: as distances from the result before. Equal code then has equal words,
//! wherever it is in a module, and a pack is less than half as large. The library and tools/shaders share this file.
//!
//! What a word is depends on its instruction only, so that each way is the exact inverse of the other for all words: a
//! wrong entry below would make packs larger, and nothing else.

#![forbid(unsafe_code)]

/// Words before the first instruction.
const HEAD: usize = 5;

/// Where an instruction has ids: the word of its result (0: none), and the words of its operands, from one up to
/// another.
struct Shape {
    result: usize,
    from: usize,
    to: usize,
}

/// Types, constants and whatever comes before functions refer to ids that are rarely near: only their results are
/// distances.
fn shape(opcode: u32) -> Shape {
    let result_only = |result| Shape { result, from: 0, to: 0 };
    let operands_only = |to| Shape { result: 0, from: 1, to };
    match opcode {
        // OpExtInst names a set and one of its instructions first.
        12 => Shape { result: 2, from: 5, to: usize::MAX },
        // OpExtInstImport, types, OpLabel.
        11 | 19..=39 | 248 | 4456 => result_only(1),
        // Constants, OpFunction, OpVariable.
        41..=52 | 54 | 59 => result_only(2),
        // Decorations, and the rest before functions.
        0..=53 | 71 | 72 | 332 => result_only(0),
        // No result: OpFunctionEnd, barriers, branches, and ends of blocks.
        56 | 63 | 224 | 225 | 249 | 251 | 253..=255 => operands_only(usize::MAX),
        // The same, and literals follow: OpStore, OpLoopMerge, OpSelectionMerge, OpBranchConditional,
        // OpCooperativeMatrixStoreKHR.
        62 | 246 => operands_only(3),
        247 => operands_only(2),
        250 => operands_only(4),
        4458 => operands_only(6),
        // A type, the result, operands.
        _ => Shape { result: 2, from: 3, to: usize::MAX },
    }
}

/// Replaces ids by distances, or with `back` distances by ids. Of no use for words that are no module, but safe.
pub fn convert(module: &mut [u32], back: bool) {
    let mut last = 0u32;
    let mut rest = module.get_mut(HEAD..).unwrap_or_default();
    while let [head, ..] = rest {
        let (len, shape) = ((*head >> 16).max(1) as usize, shape(*head & 0xffff));
        let (words, tail) = rest.split_at_mut(len.min(rest.len()));
        let mut next = last;
        for (i, word) in words.iter_mut().enumerate() {
            let is_result = i > 0 && i == shape.result;
            if is_result || (shape.from..shape.to).contains(&i) {
                let other = last.wrapping_sub(*word);
                if is_result {
                    next = if back { other } else { *word };
                }
                *word = other;
            }
        }
        (last, rest) = (next, tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_the_inverse_of_the_other() {
        // OpTypeVoid, OpIAdd, OpStore with an alignment, OpBranch, an unknown opcode, one of no words, and one longer
        // than the module.
        let module = [
            [0x0723_0203, 0x0001_0500, 0, 99, 0].as_slice(),
            &[2 << 16 | 19, 7],
            &[5 << 16 | 128, 7, 20, 19, 30],
            &[5 << 16 | 62, 20, 19, 2, 16],
            &[2 << 16 | 249, 40],
            &[4 << 16 | 9999, 1, u32::MAX, 3],
            &[5, 9 << 16 | 128, 7, 21],
        ]
        .concat();
        let mut words = module.clone();
        convert(&mut words, false);
        // The result and the operands of OpIAdd, from the 7 of OpTypeVoid.
        assert_eq!(words[8..12], [7, 7u32.wrapping_sub(20), 7u32.wrapping_sub(19), 7u32.wrapping_sub(30)]);
        assert_eq!(words[13..17], [0, 1, 2, 16]);
        convert(&mut words, true);
        assert_eq!(words, module);
        for n in 0..module.len() {
            let mut words = module[..n].to_vec();
            convert(&mut words, false);
            convert(&mut words, true);
            assert_eq!(words, module[..n]);
        }
    }
}
