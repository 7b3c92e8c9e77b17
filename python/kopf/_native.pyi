"""The engine, as the Python front sees it: convert, call, convert.

The engine (in Rust, on its own threads) and the user's event loop (this side) talk through jobs.
The engine enqueues jobs and makes the file descriptor `Operator.fileno()` readable. The front takes
all jobs at once with `Operator.take()` in the loop's thread, and dispatches them by their classes.
It answers each job once, from any thread, with `answer()`; or with `fail()`, if it cannot do the job.
Notices have no answer. No engine thread ever waits for the GIL.
"""
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

class Cycle:
    """One handling cycle of one object: what all jobs of the cycle share."""
    uid: str
    resource: int                 # index of `Operator.resource()`
    body: bytes                   # JSON of the object
    type: str | None              # 'ADDED', 'MODIFIED', 'DELETED', None for listed objects
    reason: str | None            # 'create', 'update', 'delete', 'resume', 'noop', 'free', 'gone'; None for event handlers
    old: bytes | None             # JSON of the essence that was handled last
    new: bytes | None             # JSON of the current essence
    diff: bytes | None            # JSON list of [op, [field...], old, new]
    context: Any                  # free for the front: views, patch, logger of this cycle; None at first
    memory: ObjectMemory

class Review:
    """One object under review by webhooks: what all jobs of the review share."""
    resource: int                 # index of `Operator.resource()`
    body: bytes                   # JSON of the object in question
    old: bytes | None             # JSON of the object before, if there was one
    new: bytes | None             # JSON of the object after, if there will be one
    diff: bytes                   # JSON list of [op, [field...], old, new]
    facts: bytes                  # JSON of {operation, subresource, dryrun, userinfo, headers, sslpeer},
                                  # or of {from_version, to_version} of conversions
    context: Any                  # free for the front; None at first
    memory: ObjectMemory          # of the object; a new one if the engine does not know the object

class ObjectMemory:
    """What the front remembers of one object. It does not refer to a cycle or a review."""
    memo: Any                     # free for the front, kept as long as the object; None at first

class LatestBody:
    """The latest body of an object, while a daemon or a timer runs for it."""
    def newer_than(self, seen: int | None, /) -> tuple[int, bytes] | None:
        """The number and the JSON of the latest body; None if it is still the one with that number."""

# Calls of users' functions.

ErrorType: TypeAlias = Literal[
    'temporary', 'permanent', 'admission', 'timeout', 'retries', 'children', 'arbitrary', 'cancelled']

# (type, str(error), str(error) or repr(error), delay in seconds of 'temporary' & 'children', the error itself for the
# traceback in the log, HTTP code of 'admission')
DescribedError: TypeAlias = tuple[ErrorType, str, str, float | None, BaseException, int | None]

class CallHandler:
    """Call a handler of an object."""
    handler: int                  # index of the handler as declared, or as passed to `execute`
    cycle: Cycle
    retry: int
    started: float                # POSIX time
    runtime: float                # seconds
    timeout: float | None         # cancel the (async) call after as many seconds
    old: bytes | None             # as in the cycle, reduced to the field of the handler if it has one
    new: bytes | None
    diff: bytes | None
    call_number: int | None       # of daemons and timers: `StopCall` refers to it
    latest_body: LatestBody | None  # of daemons and timers
    def answer(self, result: str | None, patch: str | None, transformations: bool, /) -> None:
        """JSON of the result, JSON of the cycle's patch (None if empty), whether `patch.fns` has functions."""
    def answer_error(self, error: DescribedError, patch: str | None, transformations: bool, /) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...
    def execute(self, handlers: str, lifecycle: str | None, token: Any, /) -> None:
        """Call sub-handlers once (JSON declarations); `SubHandlersDone` with the token follows."""

class CallActivity:
    """Call a handler of the operator itself."""
    handler: int
    activity: str                 # 'startup', 'cleanup', 'authentication', 'probe'
    retry: int
    started: float
    runtime: float
    timeout: float | None
    def answer(self, result: str | None, patch: str | None, transformations: bool, /) -> None: ...
    def answer_error(self, error: DescribedError, patch: str | None, transformations: bool, /) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...

class CallWebhook:
    """Call a handler of a webhook. The engine never retries it, and the API server times it out."""
    handler: int
    review: Review
    started: float
    retry: Literal[0]
    runtime: float                # 0
    timeout: None
    def answer(
        self, result: str | None, patch: str | None, transformations: bool, warnings: Sequence[str] = ..., /,
    ) -> None: ...
    def answer_error(
        self, error: DescribedError, patch: str | None, transformations: bool, warnings: Sequence[str] = ..., /,
    ) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...

# Questions to users' callbacks and storages.

class EvaluateFilters:
    """Evaluate the callbacks in the filters of handlers."""
    cycle: Cycle
    questions: Sequence[tuple[int, str, bytes | None]]
                                  # (handler, slot, JSON value or None if absent); slots: 'when', 'value', 'old', 'new',
                                  # 'labels.<key>', 'annotations.<key>'; of a condition of the handler:
                                  # 'conditions.<index>.<slot>', also 'conditions.<index>.selector'
    def answer(self, decisions: Sequence[bool], /) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...

class EvaluateReviewFilters:
    """Evaluate the callbacks in the filters of webhook handlers."""
    review: Review
    questions: Sequence[tuple[int, str, bytes | None]]
    def answer(self, decisions: Sequence[bool], /) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...

class EvaluateSelector:
    """Evaluate the callback in the selector of a handler."""
    handler: int
    resource: str                 # JSON as of `Operator.resource()`
    def answer(self, decision: bool, /) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...

class ChooseHandlers:
    """Let the lifecycle function choose the handlers to call now."""
    cycle: Cycle
    handlers: Sequence[int]
    state: str                    # JSON {handler id: {"retries": n, "started": iso, "success": bool, "failure": bool}}
    def answer(self, handlers: Sequence[int], /) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...

class ComputeInitialDelay:
    """Call the function that computes the initial delay of a daemon or a timer."""
    cycle: Cycle
    handler: int
    def answer(self, seconds: float, /) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...

class ReadStorage:
    cycle: Cycle
    question: str                 # JSON {"ids": [...], "extra_fields": [...], "progress": bool, "diffbase": bool}
    def answer(self, content: str, /) -> None:
        """JSON {"old": ..., "new": ..., "records": {id: record}}"""
    def fail(self, error: BaseException, /) -> None: ...

class WriteStorage:
    cycle: Cycle
    operations: str               # JSON list of {"op": "store" | "purge" | "touch" | "diffbase", ...}
    def answer(self, patch: str | None, /) -> None:
        """JSON of the cycle's whole patch after the storages wrote into it, None if empty."""
    def fail(self, error: BaseException, /) -> None: ...

class TransformBody:
    """Apply `patch.fns` of a cycle."""
    cycle: Cycle
    body: bytes                   # JSON of the latest body
    def answer(self, body: str, /) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...

class TransformReviewed:
    """Apply `patch.fns` of a review."""
    review: Review
    body: bytes
    def answer(self, body: str, /) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...

# Questions about the operator.

class Configure:
    """Describe the settings and the handlers: all startup handlers are done."""
    def answer(self, description: str, /) -> None:
        """JSON {"settings": {...}, "handlers": [...]}"""
    def fail(self, error: BaseException, /) -> None: ...

class ListActivities:
    """Describe the handlers of activities that are declared by now."""
    def answer(self, handlers: str, /) -> None:
        """JSON list of declarations."""
    def fail(self, error: BaseException, /) -> None: ...

class Ping:
    """Answer at once, to show that the event loop is alive."""
    def answer(self) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...

# Notices.

class EmitLog:
    logger: str                   # full name, e.g. 'kopf.objects'
    level: int                    # as in `logging`
    message: str
    reference: str | None         # JSON of {apiVersion, kind, name, uid, namespace}
    local: bool                   # never posted as a Kubernetes event
    error: Any                    # the exception as passed to `answer_error` or `fail`, for the traceback

class Unindex:
    """Remove an object from indices."""
    uid: str
    ids: Sequence[str]            # of index handlers

class StopCall:
    """Tell a daemon or a timer to stop."""
    call_number: int
    reasons: int                  # all the reasons so far, as bits

class SubHandlersDone:
    """The engine has called the sub-handlers once."""
    token: Any                    # as passed to `CallHandler.execute()`
    done: bool                    # whether all sub-handlers are finished
    delay: float | None           # when to call them again, if they are not

class ServeWebhooks:
    """The servers of webhooks may start."""

class WebhookServer:
    """The engine's server has an address now, or has failed."""
    number: int                   # as passed to `Operator.serve_webhooks()`
    client_config: str | None     # JSON
    error: str | None

class ReviewAnswered:
    """The engine has answered a review."""
    token: Any                    # as passed to `Operator.review()`
    response: str                 # JSON

class Ready:
    """The operator is up: set the ready flag."""

class Finished:
    """The last job."""
    message: str | None           # the error, if any

Job: TypeAlias = (
    CallHandler | CallActivity | CallWebhook | EvaluateFilters | EvaluateReviewFilters | EvaluateSelector
    | ChooseHandlers | ComputeInitialDelay | ReadStorage | WriteStorage | TransformBody | TransformReviewed
    | Configure | ListActivities | Ping | EmitLog | Unindex | StopCall | SubHandlersDone | ServeWebhooks
    | WebhookServer | ReviewAnswered | Ready | Finished)

class Operator:
    def __init__(self, config: str, /) -> None:
        """JSON: {"activities": [declarations], "namespaces": [patterns], "clusterwide": bool, "version": str, "levels": {logger: level}}"""
    def fileno(self) -> int: ...
    def start(self) -> None: ...
    def take(self) -> list[Job]:
        """All jobs in the queue. If log records did not fit into it, the last job logs their number."""
    def stop(self, reason: str, /) -> None: ...
    def close(self) -> None: ...
    def set_levels(self, levels: str, /) -> None: ...
    def post_event(self, event: str, backoffs: Sequence[float], /) -> bool:
        """Queue a Kubernetes Event (JSON body with metadata.namespace); False if the queue is full."""
    def announce_webhooks(self, client_config: str, /) -> bool:
        """Announce where the cluster finds the webhooks (JSON); False if there is no admission yet."""
    def serve_webhooks(self, number: int, options: str, /) -> bool:
        """Start the engine's server of webhooks; `WebhookServer` follows for each address."""
    def stop_webhooks(self, number: int, /) -> None: ...
    def review(self, token: Any, review: str, /) -> bool:
        """Answer a review (JSON {request, webhook, headers, sslpeer}); `ReviewAnswered` with the token follows."""
    def resource(self, index: int, /) -> str:
        """JSON: {group, version, plural, kind, singular, shortcuts, categories, subresources, namespaced, preferred, verbs}"""

def advance_clock(seconds: float, /) -> None:
    """Move the clock of all operators of this process forward."""
def clock_shift() -> float:
    """How far `advance_clock()` has moved the clock so far, in seconds."""

# Pure helpers of the engine, for storages and structures on this side.
def yaml_to_json(text: str, /) -> str:
    """Raises ValueError for invalid YAML, and for YAML that would exhaust the memory."""
def shrink_essence(
    essence: str, keys: Sequence[str], annotations: str, patched: str, /,
) -> str:
    """The text of an essence to store under the keys, beside the other annotations."""
def self_signed(names: Sequence[str], /) -> tuple[str, str]:
    """A self-signed certificate for the names, and its key, both in PEM."""
def describe_certificate(der: bytes, /) -> str:
    """JSON of what Python's `ssl` reports about a certificate; lists instead of tuples."""
