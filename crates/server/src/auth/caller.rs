//! Who is asking, and what they may do.

use enjamb_service::Actor;

use crate::route::Scope;

/// How somebody came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// By the unix socket, which only the owner of the store can open.
    Socket,
    /// With the token in the store's directory, which only its owner can read.
    Owner,
    /// With a token that was made for somebody.
    Token(String),
    /// With a token that an identity provider signed.
    Issued { id: String, expires_ms: u64 },
    /// Without saying who; only what is open to all can be asked for.
    Nobody,
}

/// Somebody who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub via: Via,
    /// In whose name a token acts, if it is bound to one.
    pub principal: Option<String>,
    pub scopes: Vec<Scope>,
    /// `None` for the store itself.
    pub namespace: Option<String>,
}

impl Caller {
    /// The owner of the store, who could as well open it without us.
    pub fn owner(via: Via) -> Self {
        Self { via, principal: None, scopes: vec![Scope::Admin], namespace: None }
    }

    pub fn nobody() -> Self {
        Self { via: Via::Nobody, principal: None, scopes: Vec::new(), namespace: None }
    }

    pub fn may(&self, wanted: Scope) -> bool {
        match wanted {
            Scope::Open => true,
            Scope::Owner => self.is_owner(),
            Scope::Read | Scope::Append | Scope::Admin => {
                self.scopes.contains(&Scope::Admin) || self.scopes.contains(&wanted)
            }
        }
    }

    pub fn is_owner(&self) -> bool {
        matches!(self.via, Via::Socket | Via::Owner)
    }

    /// The token that limits are counted by.
    pub fn token_id(&self) -> Option<&str> {
        match &self.via {
            Via::Token(id) | Via::Issued { id, .. } => Some(id),
            Via::Socket | Via::Owner | Via::Nobody => None,
        }
    }

    /// The name that frames record: that of the token, or, for the owner, whatever they say.
    pub fn actor(&self, claimed: Option<&str>, origin: Option<&str>) -> Actor {
        match &self.principal {
            Some(principal) => Actor { actor_id: principal.clone(), origin: "http".into() },
            None => {
                let or =
                    |text: Option<&str>, other: &str| text.filter(|text| !text.is_empty()).unwrap_or(other).to_owned();
                Actor { actor_id: or(claimed, "user"), origin: or(origin, "http") }
            }
        }
    }

    /// The name that was claimed, when it is not the one that counts.
    pub fn overruled<'c>(&self, claimed: Option<&'c str>) -> Option<&'c str> {
        let principal = self.principal.as_deref()?;
        claimed.filter(|claimed| *claimed != principal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_token_speaks_for_its_principal_alone() {
        let owner = Caller::owner(Via::Socket);
        assert_eq!(owner.actor(Some("agent/a"), Some("cli")).actor_id, "agent/a");
        assert_eq!(owner.actor(None, None).actor_id, "user");
        let bound = Caller { principal: Some("bot".into()), ..Caller::owner(Via::Token("t".into())) };
        assert_eq!(bound.actor(Some("agent/a"), Some("cli")).actor_id, "bot");
        assert_eq!(bound.overruled(Some("agent/a")), Some("agent/a"));
        assert_eq!(bound.overruled(Some("bot")), None);
    }

    #[test]
    fn admin_may_everything_and_append_may_not_read() {
        let with = |scopes: &[Scope]| Caller { scopes: scopes.to_vec(), ..Caller::nobody() };
        assert!(with(&[Scope::Admin]).may(Scope::Read));
        assert!(!with(&[Scope::Append]).may(Scope::Read));
        assert!(!with(&[Scope::Read]).may(Scope::Append));
        assert!(!with(&[Scope::Read, Scope::Append]).may(Scope::Admin));
        assert!(with(&[]).may(Scope::Open) && !with(&[]).may(Scope::Read));
        assert!(!with(&[Scope::Admin, Scope::Owner]).may(Scope::Owner), "no token runs programs");
        assert!(Caller::owner(Via::Socket).may(Scope::Owner) && Caller::owner(Via::Owner).may(Scope::Owner));
    }
}
