//! Sources: what an answer was based on, in five kinds.

use super::fields::{Fields, malformed};
use super::{PackError, Tree};

pub(super) const KINDS: [&str; 5] = ["file_snippet", "github_issue", "github_pr", "afu9_artifact", "upload"];

#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    FileSnippet(FileSnippet),
    Issue(Numbered),
    PullRequest(Numbered),
    Artifact(ArtifactSource),
    Upload(Upload),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    pub owner: String,
    pub repo: String,
}

/// Lines of a file that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSnippet {
    pub repo: Repo,
    pub branch: String,
    pub path: String,
    pub start_line: u64,
    pub end_line: u64,
    pub snippet_hash: String,
    pub content_sha256: Option<String>,
}

/// An issue or a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    pub repo: Repo,
    pub number: u64,
    pub url: Option<String>,
    pub title: Option<String>,
    pub updated_at: Option<String>,
}

/// Anything else that has a type and an id.
#[derive(Clone, Debug, PartialEq)]
pub struct ArtifactSource {
    pub artifact_type: String,
    pub artifact_id: String,
    pub sha256: Option<String>,
    /// An object of whatever its producer says of it.
    pub reference: Option<Tree>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    pub upload_id: String,
    pub filename: String,
    pub content_type: String,
    pub size_bytes: u64,
    pub content_sha256: String,
    pub uploaded_at: Option<String>,
}

impl Source {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::FileSnippet(_) => KINDS[0],
            Self::Issue(_) => KINDS[1],
            Self::PullRequest(_) => KINDS[2],
            Self::Artifact(_) => KINDS[3],
            Self::Upload(_) => KINDS[4],
        }
    }

    /// Reads one source. Members that its kind does not have are refused.
    pub fn read(path: &str, tree: Tree) -> Result<Self, PackError> {
        let mut fields = Fields::of(path, tree)?;
        let kind = fields.word("kind")?;
        let source = match kind.as_str() {
            "file_snippet" => Self::FileSnippet(read_snippet(&mut fields)?),
            "github_issue" => Self::Issue(read_numbered(&mut fields)?),
            "github_pr" => Self::PullRequest(read_numbered(&mut fields)?),
            "afu9_artifact" => Self::Artifact(read_artifact(&mut fields)?),
            "upload" => Self::Upload(read_upload(&mut fields)?),
            _ => {
                let kind = kind.chars().take(100).collect();
                return Err(PackError::UnknownSourceKind { path: fields.path("kind"), kind });
            }
        };
        fields.end()?;
        Ok(source)
    }

    /// The source with its members in the order in which hashes take them.
    pub fn tree(&self) -> Tree {
        let mut members = vec![("kind", Some(text(self.kind())))];
        match self {
            Self::FileSnippet(snippet) => members.extend([
                ("repo", Some(snippet.repo.tree())),
                ("branch", Some(text(&snippet.branch))),
                ("path", Some(text(&snippet.path))),
                ("startLine", Some(number(snippet.start_line))),
                ("endLine", Some(number(snippet.end_line))),
                ("snippetHash", Some(text(&snippet.snippet_hash))),
                ("contentSha256", optional(&snippet.content_sha256)),
            ]),
            Self::Issue(numbered) | Self::PullRequest(numbered) => members.extend([
                ("repo", Some(numbered.repo.tree())),
                ("number", Some(number(numbered.number))),
                ("url", optional(&numbered.url)),
                ("title", optional(&numbered.title)),
                ("updatedAt", optional(&numbered.updated_at)),
            ]),
            Self::Artifact(artifact) => members.extend([
                ("artifactType", Some(text(&artifact.artifact_type))),
                ("artifactId", Some(text(&artifact.artifact_id))),
                ("sha256", optional(&artifact.sha256)),
                ("ref", artifact.reference.clone()),
            ]),
            Self::Upload(upload) => members.extend([
                ("uploadId", Some(text(&upload.upload_id))),
                ("filename", Some(text(&upload.filename))),
                ("contentType", Some(text(&upload.content_type))),
                ("sizeBytes", Some(number(upload.size_bytes))),
                ("contentSha256", Some(text(&upload.content_sha256))),
                ("uploadedAt", optional(&upload.uploaded_at)),
            ]),
        }
        object(members)
    }

    /// What sources are ordered by.
    pub(super) fn sort_key(&self) -> String {
        let kind = self.kind();
        match self {
            Self::FileSnippet(FileSnippet { repo, branch, path, start_line, end_line, snippet_hash, .. }) => {
                let Repo { owner, repo } = repo;
                format!("{kind}|{owner}|{repo}|{branch}|{path}|{start_line:010}|{end_line:010}|{snippet_hash}")
            }
            Self::Issue(Numbered { repo, number, .. }) | Self::PullRequest(Numbered { repo, number, .. }) => {
                format!("{kind}|{}|{}|{number:010}", repo.owner, repo.repo)
            }
            Self::Artifact(ArtifactSource { artifact_type, artifact_id, .. }) => {
                format!("{kind}|{artifact_type}|{artifact_id}")
            }
            Self::Upload(_) => kind.to_owned(),
        }
    }

    /// The source in a line, for people.
    pub fn line(&self) -> String {
        match self {
            Self::FileSnippet(snippet) => {
                let FileSnippet { path, start_line, end_line, branch, .. } = snippet;
                format!("{path}:{start_line}-{end_line} ({}/{}@{branch})", snippet.repo.owner, snippet.repo.repo)
            }
            Self::Issue(numbered) => format!("issue {}", numbered.line()),
            Self::PullRequest(numbered) => format!("pull request {}", numbered.line()),
            Self::Artifact(artifact) => format!("{} {}", artifact.artifact_type, artifact.artifact_id),
            Self::Upload(upload) => format!("upload {} ({} bytes)", upload.filename, upload.size_bytes),
        }
    }

    /// Every text that someone else wrote, to be changed in place.
    pub(super) fn texts_mut(&mut self) -> Vec<&mut String> {
        match self {
            Self::FileSnippet(snippet) => vec![&mut snippet.branch, &mut snippet.path],
            Self::Issue(numbered) | Self::PullRequest(numbered) => {
                [&mut numbered.url, &mut numbered.title].into_iter().flatten().collect()
            }
            Self::Artifact(artifact) => vec![&mut artifact.artifact_id],
            Self::Upload(upload) => vec![&mut upload.filename],
        }
    }
}

impl Repo {
    fn tree(&self) -> Tree {
        object(vec![("owner", Some(text(&self.owner))), ("repo", Some(text(&self.repo)))])
    }
}

impl Numbered {
    fn line(&self) -> String {
        let title = self.title.as_deref().map(|title| format!(" {title}")).unwrap_or_default();
        format!("{}/{}#{}{title}", self.repo.owner, self.repo.repo, self.number)
    }
}

fn read_repo(fields: &mut Fields) -> Result<Repo, PackError> {
    let mut repo = fields.object("repo")?;
    let read = Repo { owner: repo.word("owner")?, repo: repo.word("repo")? };
    repo.end()?;
    Ok(read)
}

fn read_snippet(fields: &mut Fields) -> Result<FileSnippet, PackError> {
    Ok(FileSnippet {
        repo: read_repo(fields)?,
        branch: fields.word("branch")?,
        path: fields.word("path")?,
        start_line: fields.positive("startLine")?,
        end_line: fields.positive("endLine")?,
        snippet_hash: fields.word("snippetHash")?,
        content_sha256: fields.word_or_none("contentSha256")?,
    })
}

fn read_numbered(fields: &mut Fields) -> Result<Numbered, PackError> {
    Ok(Numbered {
        repo: read_repo(fields)?,
        number: fields.positive("number")?,
        url: fields.url_or_none("url")?,
        title: fields.word_or_none("title")?,
        updated_at: fields.word_or_none("updatedAt")?,
    })
}

fn read_artifact(fields: &mut Fields) -> Result<ArtifactSource, PackError> {
    let reference = fields.take("ref");
    if !matches!(reference, None | Some(Tree::Object(_))) {
        return Err(malformed(&fields.path("ref"), "is no object", "an object"));
    }
    Ok(ArtifactSource {
        artifact_type: fields.word("artifactType")?,
        artifact_id: fields.word("artifactId")?,
        sha256: fields.word_or_none("sha256")?,
        reference,
    })
}

fn read_upload(fields: &mut Fields) -> Result<Upload, PackError> {
    let upload_id = fields.word("uploadId")?;
    if !super::is_uuid(&upload_id) {
        return Err(malformed(&fields.path("uploadId"), "is no UUID", "a UUID"));
    }
    Ok(Upload {
        upload_id,
        filename: fields.word("filename")?,
        content_type: fields.word("contentType")?,
        size_bytes: fields.positive("sizeBytes")?,
        content_sha256: fields.word("contentSha256")?,
        uploaded_at: fields.word_or_none("uploadedAt")?,
    })
}

pub(super) fn text(text: &str) -> Tree {
    Tree::Text(text.to_owned())
}

pub(super) fn number(number: u64) -> Tree {
    Tree::Number(number as f64)
}

fn optional(member: &Option<String>) -> Option<Tree> {
    member.as_deref().map(text)
}

/// An object of the members that there are.
pub(super) fn object(members: Vec<(&str, Option<Tree>)>) -> Tree {
    Tree::Object(members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}
