// SPDX-License-Identifier: MIT OR Apache-2.0

//! Command buffers that are kept as they were recorded, for work that comes again.

/// How many are kept.
const MOST: usize = 32;

/// Command buffers, and what tells the work apart that they were recorded from; the latest used is the last.
pub struct Recorded<R>(Vec<(Vec<u8>, R)>);

impl<R> Recorded<R> {
    /// Keeps none.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the command buffer of some work. If there is none, one is made, or the one that was not used for longest is
    /// taken, and recorded.
    ///
    /// # Errors
    /// Those of `make` and `record`. What failed to be recorded is not kept.
    pub fn get<E>(
        &mut self,
        work: &[u8],
        make: impl FnOnce() -> Result<R, E>,
        record: impl FnOnce(&mut R) -> Result<(), E>,
    ) -> Result<&mut R, E> {
        match self.0.iter().position(|(bytes, _)| bytes == work) {
            Some(at) => self.0[at..].rotate_left(1),
            None => {
                let has_room = self.0.len() < MOST;
                let (mut bytes, mut kept) =
                    if has_room { (Vec::new(), make()?) } else { self.0.remove(0) };
                record(&mut kept)?;
                bytes.clear();
                bytes.extend_from_slice(work);
                self.0.push((bytes, kept));
            }
        }
        let Some((_, kept)) = self.0.last_mut() else { unreachable!("one was found or recorded") };
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for work, which is recorded as its own first byte, and says whether it was recorded now.
    fn ask(recorded: &mut Recorded<u8>, work: u8) -> bool {
        let mut is_new = false;
        let kept = recorded.get(
            &[work],
            || Ok::<_, ()>(0),
            |kept| {
                (*kept, is_new) = (work, true);
                Ok(())
            },
        );
        assert_eq!(kept.copied(), Ok(work));
        is_new
    }

    #[test]
    fn what_comes_again_is_recorded_once_and_what_was_not_used_for_longest_makes_room() {
        let mut recorded = Recorded::new();
        for work in 1..=MOST as u8 {
            assert!(ask(&mut recorded, work));
            assert!(!ask(&mut recorded, work));
        }
        assert!(!ask(&mut recorded, 1));
        assert!(ask(&mut recorded, 100));
        assert_eq!(recorded.0.len(), MOST);
        assert!(!ask(&mut recorded, 1));
        // It was the one that was not used for longest.
        assert!(ask(&mut recorded, 2));
        recorded.clear();
        assert!(ask(&mut recorded, 1));
    }

    #[test]
    fn what_could_not_be_recorded_is_not_kept() {
        let mut recorded = Recorded::new();
        assert!(ask(&mut recorded, 1));
        let failed = recorded.get(&[2], || Ok(0), |_| Err("no"));
        assert_eq!(failed, Err("no"));
        assert!(ask(&mut recorded, 2));
        assert_eq!(recorded.get(&[3], || Err("none"), |_| Ok(())), Err("none"));
        assert_eq!(recorded.0.len(), 2);
    }
}
