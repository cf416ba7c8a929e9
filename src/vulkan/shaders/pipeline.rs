//! Pipelines: created on first use, several at a time, and cached on disk between processes.
//!
//! The cache is a file for each driver and device in the folder `GGML_VK_PIPELINE_CACHE_DIR` (default: `ggml-vulkan` in
//! the user's cache folder). If the variable is empty, there is no file. The file is written under a temporary name and
//! then renamed, so that other processes see the old file or the new one. The driver gets the data of a file that only
//! this user can have written, after header, device and a digest of all bytes have been checked.

use crate::environment;
use crate::error::Result;
use crate::sys::file;
use crate::sys::sync::{lock, read, write};
use crate::sys::thread::parallel;
use crate::vulkan::device::core::Core;
use crate::vulkan::shaders::interface::MAX_PUSH;
use crate::vulkan::shaders::kernel::Kernel;
use crate::{log_debug, log_warn};
use ash::vk;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// What a dispatch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The pipeline.
    pub pipeline: vk::Pipeline,
    /// Its layout. It has only push constants.
    pub layout: vk::PipelineLayout,
}

/// The pipelines of a device.
pub struct Pipelines {
    core: Arc<Core>,
    layout: vk::PipelineLayout,
    cache: vk::PipelineCache,
    file: Option<PathBuf>,
    made: RwLock<HashMap<Kernel, vk::Pipeline>>,
    /// Held by the thread that creates pipelines, several of them in parallel.
    making: Mutex<()>,
    /// Pipelines that the driver compiled because the cache did not have them.
    compiled: AtomicUsize,
    /// Whether the cache has pipelines that the file does not have.
    dirty: AtomicBool,
    /// Whether the driver reports cache hits.
    feedback: bool,
}

impl Pipelines {
    /// No pipelines yet. Reads the cache of an earlier process.
    pub fn new(core: &Arc<Core>) -> Result<Self> {
        let ranges =
            [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: MAX_PUSH as u32 }];
        let info = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
        // SAFETY: `Core`: the device is valid. The push constants are within the limit that every device has
        // (`MAX_PUSH`).
        let layout = unsafe { core.vk.create_pipeline_layout(&info, None) }
            .map_err(|e| core.failed("making a pipeline layout", e))?;
        let file = cache_file(core);
        let stored = file.as_deref().and_then(read_cache).filter(|data| matches_device(data, core)).unwrap_or_default();
        let info = vk::PipelineCacheCreateInfo::default().initial_data(&stored);
        // SAFETY: `Core`: the device is valid. The data is empty, or a driver of this version wrote it for this device:
        // header and digest were checked.
        let cache = unsafe { core.vk.create_pipeline_cache(&info, None) };
        let cache = match cache {
            Ok(c) => c,
            Err(e) => {
                // SAFETY: the layout was created from this device above, and no pipeline uses it.
                unsafe { core.vk.destroy_pipeline_layout(layout, None) };
                return Err(core.failed("making a pipeline cache", e));
            }
        };
        log_debug!("ggml_vulkan: pipeline cache: {} bytes read", stored.len());
        Ok(Self {
            core: core.clone(),
            layout,
            cache,
            file,
            made: RwLock::default(),
            making: Mutex::default(),
            compiled: AtomicUsize::new(0),
            dirty: AtomicBool::new(false),
            feedback: core.info.api_version >= vk::API_VERSION_1_3,
        })
    }

    /// The pipeline of a kernel. Creates it if necessary.
    pub fn get(&self, kernel: &Kernel) -> Result<Program> {
        if let Some(p) = self.find(kernel) {
            return Ok(p);
        }
        self.prepare(std::slice::from_ref(kernel))?;
        self.find(kernel)
            .ok_or_else(|| crate::error::Error::Backend(format!("Vulkan: no pipeline for {}", kernel.shader.name())))
    }

    /// The pipeline of a kernel, if there is one.
    pub fn find(&self, kernel: &Kernel) -> Option<Program> {
        let made = read(&self.made);
        made.get(kernel).map(|&pipeline| Program { pipeline, layout: self.layout })
    }

    /// Creates the missing pipelines of a list in parallel, and writes the cache to disk if the driver compiled any.
    pub fn prepare(&self, kernels: &[Kernel]) -> Result<()> {
        let _one = lock(&self.making);
        let mut missing: Vec<Kernel> = kernels.iter().filter(|k| self.find(k).is_none()).copied().collect();
        let mut seen = std::collections::HashSet::new();
        missing.retain(|k| seen.insert(*k));
        if missing.is_empty() {
            return Ok(());
        }
        let before = self.compiled.load(Ordering::Relaxed);
        let start = std::time::Instant::now();
        let results: Vec<OnceLock<Result<vk::Pipeline>>> = missing.iter().map(|_| OnceLock::new()).collect();
        parallel(missing.len(), |i| _ = results[i].set(self.make(&missing[i])));
        let made = results.into_iter().filter_map(OnceLock::into_inner);
        let mut first_error = None;
        {
            let mut all = write(&self.made);
            for (kernel, pipeline) in missing.iter().zip(made) {
                match pipeline {
                    Ok(p) => drop(all.insert(*kernel, p)),
                    Err(e) => first_error = first_error.or(Some(e)),
                }
            }
        }
        let compiled = self.compiled.load(Ordering::Relaxed) - before;
        let names: Vec<_> = missing.iter().map(|k| k.shader.name()).collect();
        log_debug!(
            "ggml_vulkan: {} pipelines made in {} ms, {compiled} of them compiled: {}",
            missing.len(),
            start.elapsed().as_millis(),
            names.join(" ")
        );
        if compiled > 0 {
            self.dirty.store(true, Ordering::Relaxed);
            self.store();
        }
        first_error.map_or(Ok(()), Err)
    }

    fn make(&self, kernel: &Kernel) -> Result<vk::Pipeline> {
        let vk = &self.core.vk;
        let what = kernel.shader.name();
        let info = vk::ShaderModuleCreateInfo::default().code(kernel.shader.words());
        // SAFETY: `Core`: the device is valid. The words are a valid module of a pack (`make shaders`). The checks of
        // the operations and `policy::method` choose only modules whose capabilities the device has.
        let module = unsafe { vk.create_shader_module(&info, None) }.map_err(|e| self.core.failed(what, e))?;
        let spec = kernel.spec();
        let entries: Vec<_> = (0..spec.len() as u32)
            .map(|i| vk::SpecializationMapEntry { constant_id: i, offset: 4 * i, size: 4 })
            .collect();
        let bytes: Vec<u8> = spec.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(&bytes);
        let mut width = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(kernel.subgroup.into());
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main")
            .specialization_info(&specialization);
        if kernel.subgroup != 0 {
            stage = stage.flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS).push_next(&mut width);
        }
        let mut pipeline_feedback = vk::PipelineCreationFeedback::default();
        let mut stage_feedback = [vk::PipelineCreationFeedback::default()];
        let mut feedback = vk::PipelineCreationFeedbackCreateInfo::default()
            .pipeline_creation_feedback(&mut pipeline_feedback)
            .pipeline_stage_creation_feedbacks(&mut stage_feedback);
        let mut create = vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout);
        if self.feedback {
            create = create.push_next(&mut feedback);
        }
        // SAFETY: module, layout and cache were created from this device and are destroyed later. `create` borrows what
        // it points to, and the constants have the numbers and types of the module (`interface`).
        let made = unsafe { vk.create_compute_pipelines(self.cache, &[create], None) };
        // SAFETY: the module was created above. A pipeline does not use its module after its creation.
        unsafe { vk.destroy_shader_module(module, None) };
        let pipeline = made.map_err(|(_, e)| self.core.failed(&format!("making the pipeline of {what}"), e))?[0];
        let hit = vk::PipelineCreationFeedbackFlags::VALID
            | vk::PipelineCreationFeedbackFlags::APPLICATION_PIPELINE_CACHE_HIT;
        if !(self.feedback && pipeline_feedback.flags.contains(hit)) {
            self.compiled.fetch_add(1, Ordering::Relaxed);
        }
        Ok(pipeline)
    }

    /// Writes the cache to disk if it has new pipelines.
    pub fn store(&self) {
        let Some(file) = &self.file else { return };
        if !self.dirty.swap(false, Ordering::Relaxed) {
            return;
        }
        // SAFETY: the cache was created from this device and lives until drop. It was not created as externally
        // synchronised, so the driver synchronises access to it.
        let data = match unsafe { self.core.vk.get_pipeline_cache_data(self.cache) } {
            Ok(data) => data,
            Err(e) => return log_warn!("ggml_vulkan: the pipeline cache cannot be read: {e:?}"),
        };
        if let Err(e) = write_cache(file, &data) {
            log_warn!("ggml_vulkan: the pipeline cache {} cannot be written: {e}", file.display());
        }
    }
}

impl Drop for Pipelines {
    fn drop(&mut self) {
        self.store();
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the objects were created from this device and are destroyed once. No work uses them: streams hold the
        // `Gpu` that owns this, and a stream drops its recorder, which waits for its work, before its `Gpu`. The
        // recorder for transfers runs no pipeline.
        unsafe {
            made.drain().for_each(|(_, p)| self.core.vk.destroy_pipeline(p, None));
            self.core.vk.destroy_pipeline_cache(self.cache, None);
            self.core.vk.destroy_pipeline_layout(self.layout, None);
        }
    }
}

/// First bytes of a cache file, before the SHA-256 digest of the driver's data and the data.
const MAGIC: &[u8; 8] = b"ggmlvkc2";
/// Bytes that a cache file may have. Drivers write a few megabytes.
const MAX_FILE: u64 = 1 << 28;

fn cache_file(core: &Core) -> Option<PathBuf> {
    let i = &core.info;
    let uuid: String = i.pipeline_uuid.iter().map(|b| format!("{b:02x}")).collect();
    let name = format!("{:04x}-{:04x}-{:08x}-{uuid}.bin", i.identity.vendor, i.device_id, i.driver_version);
    environment::cache_folder().map(|f| f.join(name))
}

/// Returns the driver's data from a file. Returns `None` if the file is absent or of an older version. Logs a warning
/// and returns `None` if the file is damaged, or if another user may have written it.
fn read_cache(file: &Path) -> Option<Vec<u8>> {
    let bytes = match file::read_private(file, MAX_FILE) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
        Err(e) => {
            log_warn!("ggml_vulkan: the pipeline cache {} is not used: {e}", file.display());
            return None;
        }
    };
    // A file of an older version.
    let rest = bytes.strip_prefix(MAGIC)?;
    let data =
        rest.split_first_chunk().filter(|(digest, data)| *digest == &digest_of(data)).map(|(_, data)| data.to_vec());
    if data.is_none() {
        log_warn!("ggml_vulkan: the pipeline cache {} is damaged and not used", file.display());
    }
    data
}

fn digest_of(data: &[u8]) -> [u8; 32] {
    Sha256::digest(data).into()
}

fn write_cache(file: &Path, data: &[u8]) -> std::io::Result<()> {
    file::replace_private(file, &[MAGIC, &digest_of(data), data], file::Durability::Synced)
}

/// Whether the header of the driver's data (VkPipelineCacheHeaderVersionOne) names this device.
fn matches_device(data: &[u8], core: &Core) -> bool {
    let word = |i: usize| data.get(4 * i..4 * i + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    word(1) == Some(1)
        && word(2) == Some(core.info.identity.vendor)
        && word(3) == Some(core.info.device_id)
        && data.get(16..32) == Some(&core.info.pipeline_uuid[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/b.bin");
        assert_eq!(read_cache(&file), None);
        write_cache(&file, b"some data").unwrap();
        assert_eq!(read_cache(&file).as_deref(), Some(&b"some data"[..]));
        // A second write leaves no temporary file.
        write_cache(&file, b"other data").unwrap();
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        let whole = std::fs::read(&file).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&file, &whole[..cut]).unwrap();
            assert_eq!(read_cache(&file), None, "{cut} bytes");
        }
        for i in 0..whole.len() {
            let mut bad = whole.clone();
            bad[i] ^= 4;
            std::fs::write(&file, &bad).unwrap();
            assert_eq!(read_cache(&file), None, "byte {i}");
        }
        std::fs::write(&file, &whole).unwrap();
        assert!(read_cache(&file).is_some());
        // A file of the former version, whose digest anybody can forge.
        std::fs::write(&file, b"ggmlvkc1 and so on").unwrap();
        assert_eq!(read_cache(&file), None);
    }
}
