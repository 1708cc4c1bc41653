//! Methods that cannot be tools.

use haft::tools;

struct Desk;

#[tools(exclusive)]
impl Desk {
    /// Writes.
    #[tool(write)]
    fn put(&mut self) {}
}

#[tools(associated)]
impl Desk {
    /// Reads.
    #[tool(read)]
    fn free() {}
}

#[tools(generic)]
impl Desk {
    /// Reads.
    #[tool(read)]
    fn find<T>(&self, _thing: T) {}
}

#[tools(own_type)]
impl Desk {
    /// Reads.
    #[tool(read)]
    fn compare(&self, _other: Option<Self>) {}
}

#[tools(no_effect)]
impl Desk {
    /// Reads.
    #[tool]
    fn look(&self) {}
}

#[tools]
impl Desk {
    fn nothing(&self) {}
}

fn main() {}
