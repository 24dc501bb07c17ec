// SPDX-License-Identifier: MIT OR Apache-2.0

//! The places that a socket has for guests.
//!
//! A guest has its place until nothing of it is left: its connection, its memory and the processes that worked for it. So
//! a front end that comes and goes never has more of the host than one that stays.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The places of a socket.
#[derive(Debug, Clone)]
pub struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Whether each is taken.
    taken: Mutex<Box<[bool]>>,
    /// Notified when one becomes free.
    freed: Notify,
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub struct Place {
    places: Places,
    number: u32,
}

impl Places {
    /// So many free places.
    #[must_use]
    pub fn new(count: u32) -> Self {
        let taken = Mutex::new((0..count).map(|_| false).collect());
        Self(Arc::new(Shared { taken, freed: Notify::new() }))
    }

    /// No code panics while it holds the lock, so its content is consistent.
    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn lock(&self) -> MutexGuard<'_, Box<[bool]>> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.lock().len()).unwrap_or(u32::MAX)
    }

    /// Takes the first place that is free, if one is.
    #[must_use]
    pub fn take(&self) -> Option<Place> {
        let mut taken = self.lock();
        let (number, place) = (0..).zip(&mut *taken).find(|(_, taken)| !**taken)?;
        *place = true;
        Some(Place { places: self.clone(), number })
    }

    /// Takes a place as soon as one is free. Only one caller may wait.
    pub async fn take_next(&self) -> Place {
        loop {
            if let Some(place) = self.take() {
                return place;
            }
            // Keeps a notification that comes before this.
            self.0.freed.notified().await;
        }
    }
}

impl Place {
    /// Its number among the socket's, from 0 on.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its number, where the socket has more than one place.
    #[must_use]
    pub fn ordinal(&self) -> Option<u32> {
        (self.places.count() > 1).then_some(self.number)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(taken) = self.places.lock().get_mut(self.number as usize) {
            *taken = false;
        }
        self.places.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::yield_now;

    #[test]
    fn the_first_free_place_is_taken_and_no_more_than_there_are() {
        let places = Places::new(2);
        let (first, second) = (places.take().unwrap(), places.take().unwrap());
        assert_eq!((first.number(), second.number(), places.count()), (0, 1, 2));
        assert!(places.take().is_none());
        drop(first);
        let again = places.take().unwrap();
        assert_eq!((again.ordinal(), second.ordinal()), (Some(0), Some(1)));
        assert_eq!(Places::new(1).take().unwrap().ordinal(), None);
    }

    #[tokio::test]
    async fn who_waits_has_a_place_when_one_becomes_free_from_whichever_thread() {
        let places = Places::new(1);
        let taken = places.take().unwrap();
        let next = tokio::spawn({
            let places = places.clone();
            async move { places.take_next().await.number() }
        });
        yield_now().await;
        assert!(!next.is_finished());
        std::thread::spawn(move || drop(taken));
        assert_eq!(next.await.unwrap(), 0);
    }
}
