//! Memory of devices that only makes graphs faster: that of weights that are copied ahead, and of experts. How much the
//! latter may take, and what happens when it is needed.
#![forbid(unsafe_code)]

use super::ahead::Readers;
use super::cost::Costs;
use super::experts::budget::Budget;
use super::experts::cache::ExpertCache;
use super::experts::serve::ExpertServer;
use super::inputs::Inbox;
use super::offload::Offload;
use super::queues::Queues;
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::log_warn;
use std::cell::RefCell;
use std::rc::Rc;

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
}

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
        self.is_new = false;
        self.experts = self.expert_server(settings);
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
