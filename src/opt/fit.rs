//! Training over several epochs.

use super::epoch::{Watch, epoch};
use super::progress;
use super::{BatchCallback, Dataset, Lent, Model, Results, Run, Settings, Shared};
use crate::error::Result;
use crate::ggml_assert;
use crate::sys::process;
use crate::sys::time::monotonic_us;
use crate::tensor::Context;
use std::cell::Cell;

/// How long to train, and on which share of the data.
pub struct FitPlan {
    /// Passes over the data.
    pub epochs: i64,
    /// Points of a step of the optimizer. A multiple of the model's batch, and a divisor of the number of points.
    pub points_per_step: i64,
    /// Share of the data for evaluation, at least 0 and less than 1.
    pub validation: f32,
    /// Progress bar, called after each batch. If there is one, epochs are printed to standard error, too.
    pub show: BatchCallback,
}

/// How the data is split into batches, steps, and a part for validation.
struct Cut {
    period: i32,
    /// Points to train on.
    train: i64,
}

fn cut(n_points: i64, per_batch: i64, plan: &FitPlan) -> Cut {
    let per_step = plan.points_per_step;
    ggml_assert!(per_step > 0 && n_points % per_step == 0, "{n_points} points are no whole steps of {per_step}");
    ggml_assert!(per_batch > 0 && per_step % per_batch == 0, "{per_step} points are no whole batches of {per_batch}");
    ggml_assert!((0.0..1.0).contains(&plan.validation), "a share of {} for validation", plan.validation);
    let period = i32::try_from(per_step / per_batch).unwrap_or(0);
    // In F32 as in the original, so that the same points are for training.
    let steps = ((1.0 - plan.validation) * (n_points / per_step) as f32) as i64;
    Cut { period, train: steps * per_step }
}

/// Trains `model` on a data set. The plan determines the period of the settings. Their callback gets a pointer to the
/// number of the epoch, an `int64_t` that counts from 1.
///
/// # Safety
/// The callback of the settings may be called with a pointer to an `int64_t` that is valid during the call.
pub unsafe fn fit(
    settings: Settings,
    model: (Lent<Context>, Model),
    dataset: &Shared<Dataset>,
    plan: &FitPlan,
) -> Result<()> {
    let started = monotonic_us();
    let n_points = dataset.with(|d| d.n_points());
    let Cut { period, train } = cut(n_points, model.1.inputs.ne()[1], plan);
    // A `Cell`, because the callback reads it through a pointer while the loop counts.
    let number = Cell::new(1i64);
    // SAFETY: the caller promises that the callback takes a pointer to an `int64_t`. Only `run` below gets `params`,
    // and `number` outlives it.
    let params = unsafe { settings.params.with_argument(number.as_ptr().cast()) };
    let run = &Shared::new(Run::new(Settings { period, params, ..settings }, Some(model))?);
    let shuffle = |n| run.with(|r| dataset.with(|d| d.shuffle(r.random(), n)));
    // The order does not matter if a step takes all points.
    if plan.points_per_step < n_points {
        shuffle(None);
    }
    let results = [(); 2].map(|()| Shared::new(Results::default()));
    let [train_watch, validation_watch] = results.each_ref().map(|r| Watch { results: Some(r), callback: plan.show });
    let say = |text: String| {
        if plan.show.is_some() {
            process::write_to_standard_error(text.as_bytes());
        }
    };
    while number.get() <= plan.epochs {
        if plan.points_per_step < train {
            shuffle(Some(train));
        }
        results.iter().for_each(|r| r.with(Results::reset));
        say(format!("ggml_opt_fit: epoch {:04}/{:04}:\n", number.get(), plan.epochs));
        epoch(run, dataset, train, train_watch, validation_watch);
        say("\n".into());
        number.set(number.get() + 1);
    }
    say(format!("ggml_opt_fit: training took {}\n", progress::clock(monotonic_us() - started)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_cut_into_batches_and_validation_takes_the_rest() {
        // SAFETY: NULL is allowed.
        let show = unsafe { BatchCallback::new(None) };
        let plan = |validation| FitPlan { epochs: 1, points_per_step: 20, validation, show };
        let of = |validation| (cut(100, 5, &plan(validation)).period, cut(100, 5, &plan(validation)).train);
        assert_eq!([of(0.0), of(0.05), of(0.5)], [(4, 100), (4, 80), (4, 40)]);
    }
}
