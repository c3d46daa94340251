//! The macros that let each family of frames be written as a table: one line per member, with how it is written.
//!
//! A member is required and always written unless it says otherwise:
//! `= omit` an `Option`, its key left out when none; `= null` an `Option`, written as null when none;
//! `= empty` a list, left out when empty; `= blank` always written, but read as empty when missing.
//! Reading takes absent and null alike. `as "ref"` gives the JSON name where Rust has another use for the word;
//! `was "prompt"` an old name still read.

/// One struct of members, with its reading and writing.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident {
        $($member:ident $(as $json:literal)? $(was $old:literal)? : $type:ty $(= $style:ident)?),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $(pub $member: $type,)*
        }

        impl $name {
            fn read(members: &mut $crate::frame::members::Members<'_>)
                -> Result<Self, $crate::frame::members::MemberFault>
            {
                $($(members.rename($old, stringify!($member));)?)*
                Ok(Self {
                    $($member: $crate::frame::catalogue::read_member!(
                        members, $crate::frame::catalogue::json_name!($member $($json)?) $(, $style)?
                    ),)*
                })
            }

            fn write(&self, out: &mut $crate::frame::members::ObjectWriter) {
                $($crate::frame::catalogue::write_member!(
                    out, $crate::frame::catalogue::json_name!($member $($json)?), self.$member $(, $style)?
                );)*
            }
        }
    };
}

/// A record inside a member. It keeps what it does not know in `extra`, as frames do.
macro_rules! nested {
    ($(#[$doc:meta])* $name:ident {
        $($member:ident $(as $json:literal)? : $type:ty $(= $style:ident)?),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $(pub $member: $type,)*
            pub extra: Vec<(String, $crate::frame::Json)>,
        }

        impl $name {
            fn read(mut members: $crate::frame::members::Members<'_>)
                -> Result<Self, $crate::frame::members::MemberFault>
            {
                Ok(Self {
                    $($member: $crate::frame::catalogue::read_member!(
                        members, $crate::frame::catalogue::json_name!($member $($json)?) $(, $style)?
                    ),)*
                    extra: members.rest(),
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut out = $crate::frame::members::ObjectWriter::new();
                $($crate::frame::catalogue::write_member!(
                    out, $crate::frame::catalogue::json_name!($member $($json)?), self.$member $(, $style)?
                );)*
                out.put_all($crate::frame::members::borrowed(&self.extra));
                serde::Serialize::serialize(&out.json(), serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let members = <$crate::frame::members::Members<'de> as serde::Deserialize>::deserialize(deserializer)?;
                Self::read(members)
                    .map_err(|fault| serde::de::Error::custom(format!("{} {}", fault.member, fault.problem)))
            }
        }
    };
}

/// One family: a struct for each frame type and the enum over them.
macro_rules! frames {
    ($(#[$doc:meta])* $body:ident in $family:ident {
        $($(#[$frame_doc:meta])* $type_name:literal $(was $old:literal)? => $frame:ident { $($members:tt)* })*
    }) => {
        $($crate::frame::catalogue::record! { $(#[$frame_doc])* $frame { $($members)* } })*

        $(#[$doc])*
        // Bodies are decoded, looked at and dropped; they are never kept by the thousand, so a box would only cost.
        #[allow(clippy::large_enum_variant)]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $body {
            $($frame($frame),)*
        }

        impl $body {
            pub const TYPES: &'static [&'static str] = &[$($type_name),*];

            pub fn type_name(&self) -> &'static str {
                match self {
                    $(Self::$frame(_) => $type_name,)*
                }
            }

            pub(super) fn knows(type_name: &str) -> bool {
                matches!(type_name, $($type_name $(| $old)?)|*)
            }

            pub(super) fn read(type_name: &str, members: &mut $crate::frame::members::Members<'_>)
                -> Option<Result<Self, $crate::frame::members::MemberFault>>
            {
                match type_name {
                    $($type_name $(| $old)? => Some($frame::read(members).map(Self::$frame)),)*
                    _ => None,
                }
            }

            pub(super) fn write(&self, out: &mut $crate::frame::members::ObjectWriter) {
                match self {
                    $(Self::$frame(frame) => frame.write(out),)*
                }
            }
        }

        $(impl From<$frame> for $crate::frame::Body {
            fn from(frame: $frame) -> Self {
                Self::$family($body::$frame(frame))
            }
        })*
    };
}

/// A small vocabulary. Words that this version does not know are kept.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($word:ident = $text:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($word,)*
            Other(String),
        }

        impl $name {
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$word => $text,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$word,)*
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(|text| Self::from(text.as_str()))
            }
        }
    )*};
}

macro_rules! json_name {
    ($member:ident) => {
        stringify!($member)
    };
    ($member:ident $json:literal) => {
        $json
    };
}

macro_rules! read_member {
    ($members:ident, $name:expr) => {
        $members.required($name)?
    };
    ($members:ident, $name:expr, $style:ident) => {
        $members.optional($name)?
    };
}

macro_rules! write_member {
    ($out:ident, $name:expr, $value:expr, omit) => {
        if let Some(value) = &$value {
            $out.put($name, value);
        }
    };
    ($out:ident, $name:expr, $value:expr, empty) => {
        if !$value.is_empty() {
            $out.put($name, &$value);
        }
    };
    ($out:ident, $name:expr, $value:expr $(, null)? $(, blank)?) => {
        $out.put($name, &$value)
    };
}

pub(super) use {frames, json_name, nested, read_member, record, words, write_member};
