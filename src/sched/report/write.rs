//! Reports into text and files.

use super::page;
use super::view::View;
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::log_warn;
use crate::sys::file;
use crate::sys::sync::brief;
use crate::tensor::TensorRef;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For programs.
    Json,
    /// For people: one page that needs nothing else.
    Html,
}

/// Reports that the environment requested: their files, and the work of the graph that each describes.
static REPORTED: Mutex<Vec<(PathBuf, u64)>> = Mutex::new(Vec::new());

impl View<'_> {
    /// The placement report as text.
    pub fn report_text(&self, format: Format) -> String {
        let report = self.report();
        match format {
            Format::Json => report.to_string(),
            Format::Html => page::render(&report),
        }
    }

    /// The placement report in a file, which is replaced.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_report(&self, format: Format, path: &Path) -> Result<()> {
        let text = self.report_text(format);
        let write = || file::create(path)?.write_all(text.as_bytes());
        write().map_err(|source| Error::Io { what: path.display().to_string(), source })
    }

    /// Writes the report that the environment variable GGML_SCHED_REPORT requests: a page, or JSON if the name ends
    /// with `.json`. Does nothing if the file already describes a graph of as much work or more: hosts start with small
    /// graphs, to warm up, and may have several schedulers.
    pub(in crate::sched) fn report_if_asked(&self, graph: GraphRef) {
        let Some(path) = self.settings.report_path.as_deref() else { return };
        let work = graph.nodes().map(TensorRef::work).fold(0, u64::saturating_add);
        {
            let mut reported = brief(&REPORTED);
            match reported.iter_mut().find(|(p, _)| p == path) {
                Some((_, most)) if work <= *most => return,
                Some((_, most)) => *most = work,
                None => reported.push((path.to_owned(), work)),
            }
        }
        let format = if path.extension().is_some_and(|e| e == "json") { Format::Json } else { Format::Html };
        if let Err(e) = self.write_report(format, path) {
            log_warn!("GGML_SCHED_REPORT: {e}");
        }
    }
}
