//! A trait's methods stay the trait's.

struct Desk;

#[haft::tools]
impl Clone for Desk {
    fn clone(&self) -> Self {
        Self
    }
}

#[haft::tools]
struct Chair;

fn main() {}
