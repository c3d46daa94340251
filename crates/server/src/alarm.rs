//! Time limits of a connection, nearly none of which is ever reached.
//!
//! Every request begins one and ends it soon after. As a timer of the runtime each would be made known to it and taken
//! back, under a lock that all connections share. So a connection has one timer, which stays set for a limit that is long
//! over; when it goes off, it is set for the limit that counts by then.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// The timer of a connection. One limit is waited for at a time.
#[derive(Clone, Default)]
pub struct Alarm(Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>);

impl Timer for Alarm {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, limit: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Until { alarm: self.clone(), limit: limit.into() })
    }
}

/// Waits until a limit is reached.
struct Until {
    alarm: Alarm,
    limit: tokio::time::Instant,
}

impl Sleep for Until {}

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut timer = self.alarm.0.lock().unwrap_or_else(PoisonError::into_inner);
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(self.limit)));
        if timer.deadline() > self.limit {
            timer.as_mut().reset(self.limit);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= self.limit {
                return Poll::Ready(());
            }
            timer.as_mut().reset(self.limit);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const SOON: Duration = Duration::from_millis(20);
    const LATER: Duration = Duration::from_millis(80);

    /// How long a limit takes, when others were begun before it and never reached.
    fn takes(limit: Duration, before: &[Duration]) -> Duration {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (alarm, began) = (Alarm::default(), Instant::now());
            for other in before {
                let mut other = alarm.sleep(*other);
                assert!(poll_fn(|cx| Poll::Ready(other.as_mut().poll(cx).is_pending())).await);
            }
            alarm.sleep(limit).await;
            began.elapsed()
        })
    }

    #[test]
    fn a_limit_is_reached_in_its_own_time() {
        assert!(takes(SOON, &[]) >= SOON);
        assert!(takes(LATER, &[SOON]) >= LATER, "one that was over before");
        assert!((SOON..LATER * 10).contains(&takes(SOON, &[LATER * 20])), "one that would have been later");
    }
}
