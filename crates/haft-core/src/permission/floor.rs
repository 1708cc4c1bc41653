//! The operator's floor: what no agent's own policy may allow unasked.
//!
//! Whoever runs Haft says it, by what a tool does, and it holds for every session of a node. It
//! only raises a verdict: neither an agent's `always_allow` nor the autonomous level lowers it. A
//! standing grant does, because a person gave it.

use serde::Deserialize;

use super::derive::{Report, Source, SourceReport, Verdict};
use crate::session::Network;
use crate::tool::{Executor, Mutates, ProcessUse, ResolvedFacets, Reversal, ToolSpec};

/// The least that becomes of a call, by what its tool does. `allow` leaves the decision to the
/// other sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Floor {
    /// Tools that start processes.
    pub process: Verdict,
    /// Tools that reach a network or an outside service, and those that start processes which do.
    pub network: Verdict,
    /// Tools that can cost money.
    #[serde(alias = "external_spend")]
    pub spend: Verdict,
    /// Tools whose changes cannot be taken back: no undo is registered for them.
    pub irreversible: Verdict,
    /// Tools that start processes on the host's own network.
    pub host_network: Verdict,
}

impl Default for Floor {
    /// Nothing runs unasked on the host's own network; all else is left to the other sources.
    fn default() -> Self {
        Self {
            process: Verdict::Allow,
            network: Verdict::Allow,
            spend: Verdict::Allow,
            irreversible: Verdict::Allow,
            host_network: Verdict::Ask,
        }
    }
}

impl Floor {
    /// Returns each facet by its name, with what the floor says about it.
    pub const fn rules(&self) -> [(&'static str, Verdict); 5] {
        [
            ("process", self.process),
            ("network", self.network),
            ("spend", self.spend),
            ("irreversible", self.irreversible),
            ("host_network", self.host_network),
        ]
    }

    /// Returns a facet for which this floor allows more than another.
    pub fn laxer_than(&self, other: &Self) -> Option<&'static str> {
        let both = self.rules().into_iter().zip(other.rules());
        both.into_iter().find(|((_, ours), (_, theirs))| ours < theirs).map(|((name, _), _)| name)
    }

    /// Returns what the floor says about calls of a tool in a session whose commands have this
    /// network; nothing when it leaves them to the other sources.
    pub fn report(&self, spec: &ToolSpec, network: &Network) -> Option<SourceReport> {
        if self.is_idle(network) {
            return None;
        }
        let facets = spec.resolved_facets();
        let applying = self.applying(spec, &facets, network);
        let strictest = applying.into_iter().flatten().max_by_key(|(verdict, _)| *verdict);
        let (verdict, what) = strictest.filter(|(verdict, _)| *verdict != Verdict::Allow)?;
        let does = match verdict {
            Verdict::Deny => "denies",
            Verdict::Ask | Verdict::Allow => "asks about",
        };
        let reason = format!("the operator's floor {does} {what}");
        Some(SourceReport { source: Source::Floor, report: Report::Says { verdict, reason } })
    }

    /// Whether nothing that it says can be about a session with this network.
    fn is_idle(&self, network: &Network) -> bool {
        let rules = [self.process, self.network, self.spend, self.irreversible];
        rules.iter().all(|rule| *rule == Verdict::Allow)
            && (self.host_network == Verdict::Allow || *network != Network::Host)
    }

    fn applying(
        &self,
        spec: &ToolSpec,
        facets: &ResolvedFacets,
        network: &Network,
    ) -> [Option<(Verdict, &'static str)>; 5] {
        let contract = spec.contract();
        let starts = facets.process == ProcessUse::Starts;
        let runs_here = starts && contract.executor == Executor::Server;
        let reaches = facets.is_open_world() || (runs_here && *network != Network::Off);
        let is_final =
            facets.mutates == Mutates::Irreversible && contract.reversal != Reversal::Undo;
        [
            starts.then_some((self.process, "what starts processes")),
            reaches.then_some((self.network, "what reaches a network")),
            contract.may_spend().then_some((self.spend, "what can cost money")),
            is_final.then_some((self.irreversible, "what cannot be taken back")),
            (runs_here && *network == Network::Host)
                .then_some((self.host_network, "processes on the host's own network")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{Definition, Facets, Reach, Schema, Spend};

    fn spec(facets: Facets) -> ToolSpec {
        let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
        let mut definition = Definition::new("thing".parse().unwrap(), "Does it.", schema);
        definition.facets = facets;
        ToolSpec::new(definition).unwrap()
    }

    fn harmless() -> Facets {
        Facets {
            mutates: Some(Mutates::None),
            reach: Some([].into()),
            process: Some(ProcessUse::None),
            spend: Some(Spend::None),
            ..Facets::default()
        }
    }

    fn shell() -> ToolSpec {
        let starts = Some(ProcessUse::Starts);
        spec(Facets { process: starts, mutates: Some(Mutates::Bounded), ..harmless() })
    }

    fn verdict(floor: &Floor, spec: &ToolSpec, network: &Network) -> Verdict {
        match floor.report(spec, network).map(|report| report.report) {
            Some(Report::Says { verdict, .. }) => verdict,
            Some(Report::Failed { .. }) | None => Verdict::Allow,
        }
    }

    #[test]
    fn by_default_only_processes_on_the_hosts_network_are_asked_about() {
        let floor = Floor::default();
        assert_eq!(verdict(&floor, &shell(), &Network::Host), Verdict::Ask);
        assert_eq!(verdict(&floor, &shell(), &Network::Public), Verdict::Allow);
        assert_eq!(verdict(&floor, &shell(), &Network::Off), Verdict::Allow);
        assert_eq!(verdict(&floor, &spec(harmless()), &Network::Host), Verdict::Allow);
        let said = floor.report(&shell(), &Network::Host).unwrap();
        let reason = "the operator's floor asks about processes on the host's own network";
        let expected = Report::Says { verdict: Verdict::Ask, reason: reason.to_owned() };
        assert_eq!(said, SourceReport { source: Source::Floor, report: expected });
    }

    #[test]
    fn each_facet_is_asked_about_where_the_floor_says_so() {
        let none = Floor { host_network: Verdict::Allow, ..Floor::default() };
        let paying = spec(Facets { spend: Some(Spend::Possible), mutates: None, ..harmless() });
        let reaching = spec(Facets { reach: Some([Reach::Network].into()), ..harmless() });
        let lasting = spec(Facets { mutates: Some(Mutates::Irreversible), ..harmless() });
        let table = [
            (Floor { process: Verdict::Ask, ..none }, shell()),
            (Floor { network: Verdict::Ask, ..none }, reaching),
            (Floor { spend: Verdict::Ask, ..none }, paying),
            (Floor { irreversible: Verdict::Ask, ..none }, lasting),
        ];
        for (floor, tool) in table {
            assert_eq!(verdict(&floor, &tool, &Network::Off), Verdict::Ask, "{floor:?}");
            assert_eq!(verdict(&floor, &spec(harmless()), &Network::Off), Verdict::Allow);
            assert_eq!(verdict(&none, &tool, &Network::Off), Verdict::Allow);
        }
        let reaches = Floor { network: Verdict::Deny, process: Verdict::Ask, ..none };
        assert_eq!(verdict(&reaches, &shell(), &Network::Public), Verdict::Deny);
        assert_eq!(verdict(&reaches, &shell(), &Network::Off), Verdict::Ask);
    }

    #[test]
    fn a_floor_is_laxer_where_it_allows_more() {
        let floor = Floor::default();
        assert_eq!(floor.laxer_than(&floor), None);
        let open = Floor { host_network: Verdict::Allow, ..floor };
        assert_eq!(open.laxer_than(&floor), Some("host_network"));
        assert_eq!(Floor { process: Verdict::Ask, ..floor }.laxer_than(&floor), None);
    }

    #[test]
    fn what_a_floor_does_not_know_is_refused_by_name() {
        let read = |json: &str| serde_json::from_str::<Floor>(json).map_err(|e| e.to_string());
        assert_eq!(read(r#"{"process":"ask"}"#).unwrap().process, Verdict::Ask);
        assert!(read(r#"{"proces":"ask"}"#).unwrap_err().contains("`proces`"));
        assert!(read(r#"{"process":"maybe"}"#).unwrap_err().contains("`maybe`"));
    }
}
