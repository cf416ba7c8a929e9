//! The progress bar.
#![forbid(unsafe_code)]

/// What the bar shows.
pub struct Progress {
    /// Training, or evaluation if false.
    pub train: bool,
    /// Number of batches done.
    pub done: i64,
    /// Number of all batches.
    pub all: i64,
    /// Points of a batch.
    pub per_batch: i64,
    /// Loss and its standard error.
    pub loss: (f64, f64),
    /// Share of correct predictions and its standard error.
    pub accuracy: (f64, f64),
    /// Microseconds since the first batch began.
    pub elapsed_us: i64,
}

/// Length of the bar in blocks.
const BLOCKS: i64 = 8;
/// Blocks from full to one eighth.
const EIGHTHS: [char; 8] = ['█', '▉', '▊', '▋', '▌', '▍', '▎', '▏'];

/// Microseconds as hours, minutes and seconds.
pub fn clock(us: i64) -> String {
    let s = us / 1_000_000;
    format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}

/// A number with `digits` after the decimal point, as C prints it.
fn number(x: f64, digits: usize) -> String {
    match (x.is_nan(), x.is_sign_negative()) {
        (true, true) => "-nan".into(),
        (true, false) => "nan".into(),
        _ => format!("{x:.digits$}"),
    }
}

impl Progress {
    fn bar(&self) -> String {
        let filled = i128::from(self.done) * 8;
        let reaches = |eighths: i64| i128::from(self.all) * i128::from(eighths) / i128::from(BLOCKS) < filled;
        let block = |b: i64| (0..8).find(|&missing| reaches(8 * b + 8 - missing)).map_or(' ', |i| EIGHTHS[i as usize]);
        (0..BLOCKS).map(block).collect()
    }

    /// The line. It ends in a carriage return, so that the next line overwrites it. The last line also has a line feed.
    pub fn line(&self) -> String {
        let left = i128::from(self.elapsed_us) * i128::from(self.all - self.done) / i128::from(self.done.max(1));
        format!(
            "{}[{}] data={:07}/{:07} loss={}±{} acc={}±{}% t={} ETA={} \r{}",
            if self.train { "train: " } else { "val:   " },
            self.bar(),
            self.done * self.per_batch,
            self.all * self.per_batch,
            number(self.loss.0, 5),
            number(self.loss.1, 5),
            number(100.0 * self.accuracy.0, 2),
            number(100.0 * self.accuracy.1, 2),
            clock(self.elapsed_us),
            clock(i64::try_from(left).unwrap_or(i64::MAX)),
            if self.done == self.all { "\n" } else { "" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: i64, all: i64) -> Progress {
        Progress {
            train: done < all,
            done,
            all,
            per_batch: 10,
            loss: (1.25, f64::NAN),
            accuracy: (0.5, 0.125),
            elapsed_us: 3_723_000_000,
        }
    }

    #[test]
    fn the_line_is_the_original_s() {
        assert_eq!(
            progress(1, 3).line(),
            "train: [██▋     ] data=0000010/0000030 loss=1.25000±nan acc=50.00±12.50% t=01:02:03 ETA=02:04:06 \r"
        );
        let last = progress(3, 3).line();
        assert!(
            last.starts_with("val:   [███████▉] data=0000030/") && last.ends_with(" ETA=00:00:00 \r\n"),
            "{last:?}"
        );
    }

    #[test]
    fn no_batch_and_no_number_are_no_reason_to_fail() {
        assert!(progress(0, 0).line().contains("data=0000000/0000000"));
        assert_eq!([number(-f64::NAN, 2), number(f64::INFINITY, 2), number(-0.004, 2)], ["-nan", "inf", "-0.00"]);
    }
}
