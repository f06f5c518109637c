//! Is this address out in the open, or behind somebody's door?
//!
//! A page that a model asks for must not be this machine, its network or a cloud's metadata service. What
//! is not plainly public is private.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        // This network, private networks, shared ones behind a provider, loopback.
        (0 | 10 | 127, ..)
            | (100, 64..=127, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            // Link-local, where clouds keep their metadata.
            | (169, 254, _)
            // Set aside for protocols, examples and measurements.
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            // Groups, the future and everybody.
            | (224..=255, ..)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    if let Some(inner) = carried_v4(&parts) {
        return is_public_v4(inner);
    }
    // Only this block is given out for the open network, and a few parts of it are not either.
    let is_global = parts[0] & 0xe000 == 0x2000;
    let is_set_aside =
        matches!(parts, [0x2001, 0..=0x01ff, ..] | [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..]);
    is_global && !is_set_aside
}

/// The IPv4 address that some IPv6 addresses stand for: it is where the packets end.
fn carried_v4(parts: &[u16; 8]) -> Option<Ipv4Addr> {
    let joined = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match *parts {
        // Mapped, translated by the well-known prefix, and 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(joined(high, low)),
        [0x2002, high, low, ..] => Some(joined(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_open_network_is_public() {
        let table = [
            ("93.184.216.34", true),
            ("8.8.8.8", true),
            ("1.1.1.1", true),
            ("172.15.0.1", true),
            ("172.32.0.1", true),
            ("100.63.0.1", true),
            ("100.128.0.1", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.1.2.3", false),
            ("100.64.0.1", false),
            ("127.0.0.1", false),
            ("127.255.255.254", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.170", false),
            ("192.0.2.1", false),
            ("192.168.1.1", false),
            ("198.18.0.1", false),
            ("198.51.100.7", false),
            ("203.0.113.9", false),
            ("224.0.0.1", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:2800:220:1:248:1893:25c8:1946", true),
            ("2a00:1450:4001::1", true),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:8.8.8.8", true),
            ("64:ff9b::169.254.169.254", false),
            ("64:ff9b::8.8.8.8", true),
            ("64:ff9b:1::1", false),
            ("2002:7f00:1::", false),
            ("2002:0808:0808::", true),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("fc00::1", false),
            ("fd12:3456::1", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ];
        for (address, public) in table {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        }
    }
}
