//! Families of operations: the one table of which operation is in which.
//!
//! A family has one name everywhere. Its constructors are in `tensor/ops/NAME`, its C functions in
//! `capi/ggml/ops/NAME`, its CPU kernels in `cpu/ops/NAME`, its Vulkan recipes in `vulkan/ops/NAME`, its shaders in
//! `vulkan_shaders/NAME/`, and its gradients in `graph/backward/NAME`; `docs/STATUS.md` groups operations by it. The
//! tests here read the sources and hold them to the table.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::{self, *};

macro_rules! families {
    ($($(#[$doc:meta])* $family:ident $name:literal: $($op:ident)*;)*) => {
        /// A family of operations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Family {
            $($(#[$doc])* $family,)*
        }

        impl Family {
            /// Every family, in the order of the table.
            #[cfg(any(test, feature = "internals"))]
            pub const ALL: &[Self] = &[$(Self::$family),*];

            /// The name of its files.
            #[cfg(any(test, feature = "internals"))]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$family => $name,)*
                }
            }

            /// Its operations, in the order of the table.
            #[cfg(any(test, feature = "internals"))]
            pub const fn ops(self) -> &'static [ggml_op] {
                match self {
                    $(Self::$family => &[$($op),*],)*
                }
            }

            /// The family of an operation.
            pub const fn of(op: ggml_op) -> Self {
                match op {
                    $($($op)|* => Self::$family,)*
                    GGML_OP_COUNT => panic!("the number of operations is none itself"),
                }
            }
        }
    };
}

families! {
    /// One source, element by element.
    Unary "unary": GGML_OP_UNARY GGML_OP_SQR GGML_OP_SQRT GGML_OP_LOG GGML_OP_SIN GGML_OP_COS GGML_OP_CLAMP
        GGML_OP_LEAKY_RELU GGML_OP_SCALE GGML_OP_FILL GGML_OP_SILU_BACK;
    /// Two sources, element by element.
    Binary "binary": GGML_OP_ADD GGML_OP_ADD1 GGML_OP_ADD_ID GGML_OP_SUB GGML_OP_MUL GGML_OP_DIV;
    /// Gated linear units.
    Glu "glu": GGML_OP_GLU;
    /// Sums, means, greatest elements, counts.
    Reduce "reduce": GGML_OP_SUM GGML_OP_SUM_ROWS GGML_OP_MEAN GGML_OP_CUMSUM GGML_OP_ARGMAX GGML_OP_COUNT_EQUAL;
    /// Data moved or laid out again.
    Copy "copy": GGML_OP_DUP GGML_OP_CPY GGML_OP_CONT GGML_OP_SET GGML_OP_ACC GGML_OP_CONCAT GGML_OP_REPEAT
        GGML_OP_REPEAT_BACK;
    /// The same memory with another shape or order.
    View "view": GGML_OP_NONE GGML_OP_RESHAPE GGML_OP_VIEW GGML_OP_PERMUTE GGML_OP_TRANSPOSE;
    /// Rows by index.
    Rows "rows": GGML_OP_GET_ROWS GGML_OP_GET_ROWS_BACK GGML_OP_SET_ROWS;
    /// Normalization of rows or of groups of channels.
    Norm "norm": GGML_OP_NORM GGML_OP_RMS_NORM GGML_OP_RMS_NORM_BACK GGML_OP_GROUP_NORM GGML_OP_L2_NORM;
    /// Softmax of rows.
    Softmax "softmax": GGML_OP_SOFT_MAX GGML_OP_SOFT_MAX_BACK;
    /// Products of matrices.
    Matmul "matmul": GGML_OP_MUL_MAT GGML_OP_MUL_MAT_ID GGML_OP_OUT_PROD;
    /// Square matrices: diagonals, triangles, systems of equations.
    Matrix "matrix": GGML_OP_DIAG GGML_OP_DIAG_MASK_INF GGML_OP_DIAG_MASK_ZERO GGML_OP_TRI GGML_OP_SOLVE_TRI;
    /// Rotary position embedding.
    Rope "rope": GGML_OP_ROPE GGML_OP_ROPE_BACK;
    /// Attention in one operation, and the choice of its keys.
    Attention "attention": GGML_OP_FLASH_ATTN_EXT GGML_OP_FLASH_ATTN_BACK GGML_OP_LIGHTNING_INDEXER
        GGML_OP_TOP_K_MASK;
    /// Convolutions, and patches of images as columns of a matrix.
    Conv "conv": GGML_OP_CONV_2D GGML_OP_CONV_3D GGML_OP_CONV_2D_DW GGML_OP_CONV_TRANSPOSE_1D
        GGML_OP_CONV_TRANSPOSE_2D GGML_OP_IM2COL GGML_OP_IM2COL_BACK GGML_OP_IM2COL_3D GGML_OP_COL2IM_1D;
    /// The largest or the mean of windows.
    Pool "pool": GGML_OP_POOL_1D GGML_OP_POOL_2D GGML_OP_POOL_2D_BACK;
    /// Padding, rolling, resizing.
    Image "image": GGML_OP_UPSCALE GGML_OP_PAD GGML_OP_PAD_REFLECT_1D GGML_OP_ROLL;
    /// Windows of planes, relative positions.
    Window "window": GGML_OP_WIN_PART GGML_OP_WIN_UNPART GGML_OP_GET_REL_POS GGML_OP_ADD_REL_POS;
    /// Tensors made of parameters.
    Generate "generate": GGML_OP_ARANGE GGML_OP_TIMESTEP_EMBEDDING;
    /// Orders of rows.
    Sort "sort": GGML_OP_ARGSORT GGML_OP_TOP_K;
    /// Recurrent layers.
    Recurrent "recurrent": GGML_OP_SSM_CONV GGML_OP_SSM_SCAN GGML_OP_RWKV_WKV6 GGML_OP_RWKV_WKV7
        GGML_OP_GATED_LINEAR_ATTN GGML_OP_GATED_DELTA_NET;
    /// Hyper-connections: a residual connection of several streams.
    Hyper "hyper": GGML_OP_DSV4_HC_COMB GGML_OP_DSV4_HC_PRE GGML_OP_DSV4_HC_POST;
    /// Losses and their gradients.
    Loss "loss": GGML_OP_CROSS_ENTROPY_LOSS GGML_OP_CROSS_ENTROPY_LOSS_BACK;
    /// Steps of optimizers.
    Optimizer "optimizer": GGML_OP_OPT_STEP_ADAMW GGML_OP_OPT_STEP_SGD;
    /// Operations that the host computes.
    Custom "custom": GGML_OP_MAP_CUSTOM1 GGML_OP_MAP_CUSTOM2 GGML_OP_MAP_CUSTOM3 GGML_OP_CUSTOM;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    /// Files in these folders that are no family's.
    const SHARED: [&str; 3] = ["mod", "build", "sink"];
    /// Shaders that a recipe of another family uses too: rows are quantized as copies are.
    const BORROWED: [(&str, &str); 1] = [("rows", "quantize")];

    fn path(folder: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)
    }

    /// The code of a file, or of all files of a folder, without comments and tests.
    fn code(path: &Path) -> String {
        if path.is_dir() {
            return std::fs::read_dir(path).unwrap().map(|e| code(&e.unwrap().path())).collect();
        }
        let text = std::fs::read_to_string(path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        text.lines().map(|l| l.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n") + "\n"
    }

    /// Name and code of each family in a folder.
    fn families(folder: &str) -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(path(folder)).unwrap().map(|e| e.unwrap().path());
        let named = entries.map(|p| (p.file_stem().unwrap().to_string_lossy().into_owned(), p));
        named.filter(|(name, _)| !SHARED.contains(&&name[..])).map(|(name, p)| (name, code(&p))).collect()
    }

    /// Returns the names, without `GGML_OP_`, of the operations that follow one of the words in a text.
    fn ops_behind(text: &str, words: &[&str]) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for word in words {
            for rest in text.split(&format!("{word}GGML_OP_")).skip(1) {
                found.insert(identifier(rest).to_owned());
            }
        }
        found
    }

    fn identifier(text: &str) -> &str {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
    }

    fn name(op: ggml_op) -> String {
        format!("{op:?}").trim_start_matches("GGML_OP_").to_owned()
    }

    /// The family that the table has for the name of an operation.
    fn family(op: &str) -> &'static str {
        let found = ggml_op::ALL.iter().find(|&&o| name(o) == op);
        Family::of(*found.unwrap_or_else(|| panic!("{op} is no operation"))).name()
    }

    fn names() -> BTreeSet<String> {
        Family::ALL.iter().map(|f| f.name().to_owned()).collect()
    }

    #[test]
    fn every_operation_is_in_one_family() {
        let listed: Vec<ggml_op> = Family::ALL.iter().flat_map(|f| f.ops()).copied().collect();
        assert_eq!(listed.len(), ggml_op::ALL.len());
        assert!(Family::ALL.iter().all(|&f| f.ops().iter().all(|&op| Family::of(op) == f)));
    }

    #[test]
    fn constructors_are_in_the_file_of_their_family() {
        let found = families("src/tensor/ops");
        assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), names());
        for f in Family::ALL {
            let made = ops_behind(&found[f.name()], &["new(", "node(", "=> ", "set_op("]);
            // What a tensor starts as; and an operation that no C function makes.
            let unmade = [GGML_OP_NONE, GGML_OP_FLASH_ATTN_BACK];
            let want = f.ops().iter().filter(|op| !unmade.contains(op)).map(|&op| name(op)).collect();
            assert_eq!(made, want, "tensor/ops/{}", f.name());
        }
    }

    #[test]
    fn c_functions_are_in_the_file_of_their_family() {
        let found = families("src/capi/ggml/ops");
        assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), names());
        for (file, text) in &found {
            for used in text.split("tensor::ops::").skip(1).map(identifier) {
                assert!(used == file || used.is_empty() || used == "Place", "capi/ggml/ops/{file} uses {used}");
            }
            for function in text.split("extern \"C\" fn ggml_").skip(1) {
                let op = identifier(function).to_uppercase();
                if ggml_op::ALL.iter().any(|&o| name(o) == op) {
                    assert_eq!(family(&op), file, "ggml_{}", identifier(function));
                }
            }
        }
    }

    #[test]
    fn kernels_are_in_the_file_of_their_family() {
        let found = families("src/cpu/ops");
        let mut want = names();
        want.remove(Family::View.name()); // nothing to compute
        assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), want);
        let table = code(&path("src/cpu/table.rs"));
        let table = table.split("\n];").next().unwrap();
        let mut rows = 0;
        for row in table.split(" op(").skip(1).filter_map(|r| r.trim_start().strip_prefix("GGML_OP_")) {
            let op = identifier(row);
            // The modules of the row: kernel, check, scratch memory; `check_map` and the like are everybody's.
            for (before, _) in row.match_indices("::").map(|(at, _)| row.split_at(at)) {
                let module = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                assert!(module == family(op) || module == "Tasks", "the row of {op} names {module}");
            }
            rows += 1;
        }
        assert_eq!(rows + Family::View.ops().len(), ggml_op::ALL.len());
    }

    #[test]
    fn recipes_are_in_the_file_of_their_family() {
        let found = families("src/vulkan/ops");
        assert!(found.keys().all(|file| names().contains(file)));
        let text = code(&path("src/vulkan/ops/mod.rs"));
        let arms = text.split("match op {").nth(1).and_then(|t| t.split("Some(Op").next()).unwrap();
        let mut pending = Vec::new();
        let mut checked = 0;
        for piece in arms.split("GGML_OP_").skip(1) {
            pending.push(identifier(piece));
            let Some((_, recipe)) = piece.split_once("=>") else { continue };
            let recipe = recipe.trim_start_matches(|c: char| c.is_whitespace() || c == '{' || c == '(');
            if recipe.starts_with("return None") {
                pending.clear();
                continue;
            }
            for op in pending.drain(..) {
                let module = if family(op) == "view" { "always" } else { family(op) };
                assert_eq!(identifier(recipe), module, "the recipe of {op}");
                checked += 1;
            }
        }
        assert!(checked > 40 && pending.is_empty());
    }

    #[test]
    fn shaders_are_in_the_folder_of_their_family() {
        let recipes = families("src/vulkan/ops");
        let mut used = 0;
        for (family, text) in &recipes {
            for shader in text.split("constants::").skip(1).map(identifier).filter(|s| !s.is_empty()) {
                // Words of a file's name are joined by underscores, those of a struct's name by capitals.
                let name = shader.to_lowercase();
                let owner = if BORROWED.contains(&(family, &name)) { "copy" } else { family };
                let is_it =
                    |file: &Path| file.file_stem().is_some_and(|f| f.to_string_lossy().replace('_', "") == name);
                let folder = path("vulkan_shaders").join(owner);
                let found = std::fs::read_dir(&folder).unwrap().any(|e| is_it(&e.unwrap().path()));
                assert!(found, "vulkan/ops/{family} uses {shader}, which is not in {}", folder.display());
                used += 1;
            }
        }
        assert!(used >= 30);
        for entry in std::fs::read_dir(path("vulkan_shaders")).unwrap().map(|e| e.unwrap().path()) {
            let folder = entry.file_name().unwrap().to_string_lossy().into_owned();
            assert!(!entry.is_dir() || recipes.contains_key(&folder), "vulkan_shaders/{folder} is no family");
            assert!(entry.extension().is_none_or(|e| e != "comp"), "{folder} is in no family's folder");
        }
    }

    #[test]
    fn gradients_are_in_the_file_of_their_family() {
        let found = families("src/graph/backward");
        for (file, text) in &found {
            let ops = ops_behind(text, &[""]);
            assert!(names().contains(file) && (!ops.is_empty() || file == "glu"), "graph/backward/{file}");
            for op in ops.iter().filter(|op| ggml_op::ALL.iter().any(|&o| name(o) == **op)) {
                assert_eq!(family(op), file, "the gradient of {op}");
            }
        }
    }
}
