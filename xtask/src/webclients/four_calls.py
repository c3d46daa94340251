"""The first four calls of anybody who writes a runtime, done by a client that was made from the OpenAPI document."""

import json
import pathlib
import sys

from enjamb import AuthenticatedClient
from enjamb.api.compile_ import compile_
from enjamb.api.contexts import checkpoint
from enjamb.api.threads import create_thread, post
from enjamb.models import CheckpointBody, CompileBody, CompiledContext, CreateThreadBody, MadeAll, PostBody, PostedMessage, Thread


def done(answer, kind):
    """The answer, if it is what the document says that it is."""
    if not isinstance(answer, kind):
        sys.exit(f"expected {kind.__name__}, and got {answer}")
    return answer


client = AuthenticatedClient(base_url=sys.argv[1], token=pathlib.Path(sys.argv[2]).read_text().strip())

thread = done(create_thread.sync(client=client, body=CreateThreadBody(title="triage")), Thread)

question = PostBody(content="Why is checkout slow?")
posted = [
    done(post.sync(thread.thread_id, client=client, body=question, idempotency_key="run-17-turn-1"), PostedMessage)
    for _ in range(2)
]
assert posted[0].message_id == posted[1].message_id, "a retry posts nothing new"
assert (posted[0].replayed, posted[1].replayed) == (False, True)

entries = [
    {"role": "user", "content": "Why is checkout slow?"},
    {"role": "assistant", "content": "Looking at the trace…"},
]
content = "".join(json.dumps(entry) + "\n" for entry in entries)
body = CheckpointBody(format_="generic-v1", content=content, principal="bot/triage", thread_id=thread.thread_id)
commit = done(checkpoint.sync(client=client, body=body), MadeAll).commits[0]
assert commit.messages == 2

compiled = done(compile_.sync(client=client, body=CompileBody(from_=commit.id, budget=60_000)), CompiledContext)
print(f"thread {thread.thread_id}, message {posted[0].message_id}, commit {commit.id}, context {compiled.bundle}")
