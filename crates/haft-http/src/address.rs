//! Which addresses requests may go to.

use std::net::{IpAddr, Ipv4Addr};

/// How far requests may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To whatever the host's name leads to.
    Anywhere,
    /// Only to addresses of the public internet: someone else chose the host, and it could lead
    /// to what only this machine or its network reaches.
    Public,
    /// To addresses of the public internet and of one more kind.
    PublicOr(AddressKind),
}

impl Reach {
    /// Returns whether requests may go to an address.
    pub fn allows(self, address: IpAddr) -> bool {
        let kind = AddressKind::of(address);
        match self {
            Self::Anywhere => true,
            Self::Public => kind == AddressKind::Public,
            Self::PublicOr(other) => kind == AddressKind::Public || kind == other,
        }
    }
}

/// What an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    /// The public internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network.
    Private,
    /// A link, a group, a test or something else that nobody means by the name of a host.
    Special,
}

impl AddressKind {
    /// Returns the kind of an address, or of the address of version 4 that it carries inside.
    pub fn of(address: IpAddr) -> Self {
        let v6 = match address {
            IpAddr::V4(v4) => return Self::of_v4(v4),
            IpAddr::V6(v6) => v6,
        };
        if let Some(inside) = v6.to_ipv4_mapped() {
            return Self::of_v4(inside);
        }
        let s = v6.segments();
        let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
        match s[0] {
            _ if v6.is_loopback() => Self::Loopback,
            0x0064 if s[1] == 0xff9b => Self::of_v4(v4(s[6], s[7])),
            0x2002 => Self::of_v4(v4(s[1], s[2])),
            // Teredo, benchmarks, documentation and the like.
            0x2001 if s[1] < 0x0200 || s[1] == 0x0db8 => Self::Special,
            0x3fff => Self::Special,
            // All that is given out for the internet.
            0x2000..=0x3fff => Self::Public,
            0xfc00..=0xfdff => Self::Private,
            _ => Self::Special,
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [a, b, c, _] = address.octets();
        match (a, b, c) {
            (127, _, _) => Self::Loopback,
            (10, _, _) | (100, 64..=127, _) | (172, 16..=31, _) | (192, 168, _) => Self::Private,
            (0 | 224..=255, _, _)
            | (169, 254, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113) => Self::Special,
            _ => Self::Public,
        }
    }
}

/// Whether an address is one of the public internet: not of this machine, a private network, a
/// link, a group, a test, nor one that carries such an address inside.
pub fn is_public(address: IpAddr) -> bool {
    AddressKind::of(address) == AddressKind::Public
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        let inside = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "192.0.2.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "::127.0.0.1",
        ];
        for address in inside {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "::ffff:1.1.1.1"] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_reach_may_take_in_one_more_kind_and_no_other() {
        let allows = |reach: Reach, address: &str| reach.allows(address.parse().unwrap());
        let beside = Reach::PublicOr(AddressKind::Loopback);
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "1.1.1.1"] {
            assert!(allows(beside, address), "{address}");
        }
        for address in ["10.0.0.1", "169.254.169.254", "fe80::1", "fd00::1"] {
            assert!(!allows(beside, address), "{address}");
        }
        let beside = Reach::PublicOr(AddressKind::Private);
        assert!(allows(beside, "192.168.0.7") && allows(beside, "fd00::1"));
        assert!(!allows(beside, "127.0.0.1") && !allows(beside, "169.254.169.254"));
    }
}
