//! Memory of devices that only makes graphs faster: that of weights that are copied ahead, and of experts. How much the
//! latter may take, and what happens when it is needed.
#![forbid(unsafe_code)]

use super::ahead::Readers;
use super::cost::Costs;
use super::experts::budget::{Budget, Limit};
use super::experts::cache::ExpertCache;
use super::experts::serve::ExpertServer;
use super::experts::used;
use super::inputs::Inbox;
use super::offload::Offload;
use super::queues::Queues;
use super::settings::Settings;
use crate::abi::ggml::ggml_op;
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use crate::{log_info, log_warn};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What has such memory.
pub struct Spare {
    /// Experts on devices, if they have had a budget. A graph is computed with it borrowed shared.
    pub experts: Option<RefCell<ExpertServer>>,
    /// What copies weights ahead.
    pub readers: Readers,
    /// Choices by cost, if they are made so.
    pub offload: Option<Offload>,
    /// Host memory for small inputs.
    pub inbox: Inbox,
    /// What things cost, if something depends on it.
    costs: Option<Rc<Costs>>,
    budget: Budget,
    /// The next graph is the first with this budget.
    is_new: bool,
    /// Small batches with experts in host memory that were split without a budget of the host's.
    n_small: u32,
    /// When spare memory was last compared with what others need.
    compared: Instant,
}

/// Without a budget of the host's, experts are held from this small batch on: with the first one, hosts warm up, and
/// load other models to the card after that.
const SETTLED: u32 = 2;
/// Tokens that a small batch has at most.
const FEW_TOKENS: i64 = 16;
/// After so long, others may have the spare memory back.
const INTERVAL: Duration = Duration::from_secs(1);

impl Spare {
    /// With the budget of the environment.
    pub fn new(settings: &Settings) -> Self {
        let mut new = Self {
            experts: None,
            readers: Readers::new(settings),
            offload: None,
            inbox: Inbox::new(settings.backends.len(), settings.n_copies),
            costs: None,
            budget: Budget::from_environment(),
            is_new: false,
            n_small: 0,
            compared: Instant::now(),
        };
        new.experts = new.expert_server(settings);
        if Offload::is_wanted(settings) {
            let overlaps = new.readers.plans();
            new.offload = Some(Offload::new(new.costs(settings), settings.backends.len(), overlaps));
        }
        new
    }

    /// Forgets what experts have, and how much there was room for.
    pub fn start_over(&mut self, settings: &Settings) {
        (self.is_new, self.n_small) = (false, 0);
        self.experts = self.expert_server(settings);
    }

    /// A graph is about to be split and allocated. If it is a small batch, and the host has set no budget, its experts
    /// may take spare memory, unless the host forbids that plans change.
    pub fn meet(&mut self, graph: GraphRef, settings: &Settings) {
        let is_open = self.experts.is_none() && self.budget.limit == Limit::Spare && settings.debug_realloc == 0;
        if is_open && settings.backends.len() > 1 && graph.nodes().any(is_of_few_tokens) {
            self.n_small += 1;
            self.experts = self.expert_server(settings);
        }
    }

    /// Before a graph is allocated: gives up half of the spare memory that experts have if others need some.
    pub fn yield_memory(&mut self, settings: &Settings, queues: &Queues) {
        let Some(server) = self.experts.as_mut().map(RefCell::get_mut) else { return };
        if self.compared.elapsed() < INTERVAL {
            return;
        }
        self.compared = Instant::now();
        if server.cache.is_needed_elsewhere(settings)
            && let Some(bytes) = server.cache.shrink()
        {
            log_info!("experts get at most {} MiB of devices from now on: others need memory", bytes >> 20);
            drop_retired(server, queues);
        }
    }

    /// Changes how much memory experts may take, from the next [`Self::renew`] on.
    pub fn set_budget(&mut self, budget: Budget) {
        if budget != self.budget {
            (self.budget, self.is_new) = (budget, true);
        }
    }

    /// Whether no graph was split with this budget yet.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Gives up what experts have for the former budget, if there is a new one. No graph may be split.
    pub fn renew(&mut self, settings: &Settings, queues: &Queues) {
        if !std::mem::take(&mut self.is_new) {
            return;
        }
        let Some(server) = &mut self.experts else {
            self.experts = self.expert_server(settings);
            return;
        };
        server.get_mut().set_budget(self.budget, &settings.backends);
        drop_retired(server.get_mut(), queues);
    }

    /// After an error of memory, gives up memory: that of weights that are copied ahead (`has_ahead`: there are some),
    /// then half of that of experts on devices. The graph is then to be split again. Fails with the error if that is of
    /// another kind, or if there is no such memory.
    pub fn give_way(&mut self, error: Error, has_ahead: bool, queues: &Queues) -> Result<()> {
        if !matches!(&error, Error::OutOfMemory { .. }) {
            return Err(error);
        }
        if has_ahead && self.readers.stop() {
            log_warn!("weights are no longer copied ahead: {error}");
            return Ok(());
        }
        let Some(server) = self.experts.as_mut().map(RefCell::get_mut) else { return Err(error) };
        let Some(bytes) = server.cache.shrink() else { return Err(error) };
        match bytes {
            0 => log_warn!("experts are no longer held on devices: {error}"),
            bytes => log_warn!("experts get at most {} MiB of devices from now on: {error}", bytes.div_ceil(1 << 20)),
        }
        drop_retired(server, queues);
        Ok(())
    }

    /// What holds experts on devices, if it has a budget and there is an accelerator.
    fn expert_server(&mut self, settings: &Settings) -> Option<RefCell<ExpertServer>> {
        if self.budget.limit == Limit::Spare && self.n_small < SETTLED {
            return None;
        }
        let cache = ExpertCache::new(self.budget).filter(|_| settings.backends.len() > 1)?;
        Some(RefCell::new(ExpertServer::new(cache, self.costs(settings), &settings.backends)))
    }

    /// What things cost: from an earlier process, or copies measured now.
    fn costs(&mut self, settings: &Settings) -> Rc<Costs> {
        let made = || {
            let costs = Costs::new(&settings.backends, &settings.bufts);
            costs.load();
            let devices = 0..settings.backends.len() - 1;
            devices.filter(|&b| !costs.knows_copies(b)).for_each(|b| costs.probe_copies(b));
            Rc::new(costs)
        };
        self.costs.get_or_insert_with(made).clone()
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.costs.iter().for_each(|costs| costs.save());
    }
}

/// Frees the pools that no graph uses from now on, once no device uses them.
pub fn drop_retired(server: &mut ExpertServer, queues: &Queues) {
    let retired = server.take_retired();
    if !retired.is_empty() {
        queues.drain_all();
    }
}

/// Whether a node is a product of few tokens with experts in host memory.
fn is_of_few_tokens(node: TensorRef) -> bool {
    node.op_raw() == ggml_op::GGML_OP_MUL_MAT_ID as i32
        && node.src(0).is_some_and(used::is_host_weight)
        && node.src(2).is_some_and(|routing| routing.ne()[1] <= FEW_TOKENS)
}
