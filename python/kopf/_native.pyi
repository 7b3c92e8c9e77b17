"""The engine, as the Python front sees it: convert, call, convert.

The engine (Rust, on its own threads) and the user's event loop (this side) talk through jobs.
The engine queues jobs and makes the file descriptor `Operator.fileno()` readable; the front takes
all of them at once with `Operator.take()` in the loop's thread, and answers each one later, from
any thread, with `Job.answer()` or `Job.fail()`. No engine thread ever waits for the GIL to queue.
"""
from collections.abc import Sequence
from typing import Any, Final

# Kinds of jobs (`Job.kind`), and what `Job.answer()` expects for each.
LOG: Final[int]        # nothing: log `message` with `level`; not to be answered
ACTIVITY: Final[int]   # the handler's JSON result or None: call the activity handler `handler`
CONFIGURE: Final[int]  # str: JSON {"settings": {...}, "handlers": [...]}: all startup handlers are done
LOGIN: Final[int]      # str: JSON list of connection infos: run after the login handlers are done
CALL: Final[int]       # see `Job.answer_call`: call the resource handler `handler`
FILTERS: Final[int]    # list[bool]: evaluate the callbacks of `questions`
CHOOSE: Final[int]     # list[int]: the lifecycle function picks from the handlers `handlers`
STORAGE_READ: Final[int]   # str: JSON {"old": ..., "new": ..., "records": {id: record}}
STORAGE_WRITE: Final[int]  # str | None: JSON of the patch after the storage wrote into it
TRANSFORM: Final[int]  # str | None: JSON of the body after `patch.fns` were applied
UNINDEX: Final[int]    # nothing: the indices `ids` have nothing of the object `uid` any more; not to be answered
SUB_DONE: Final[int]   # nothing: sub-handlers asked for by `Job.execute` made their round
READY: Final[int]      # nothing: the operator is up (set the ready flag)
PULSE: Final[int]      # None: at once, to show that the event loop is alive
FINISHED: Final[int]   # nothing: the last job; `message` is an error or None
ADMISSION: Final[int]  # nothing: webhooks may be served from now on
SERVED: Final[int]     # nothing: the server `number` is found at `content`, or has failed with `message`
REVIEWED: Final[int]   # nothing: `content` is the answer to the review with `token`
STOP: Final[int]       # nothing: the call `call_number` of a daemon or a timer is to stop for the `reasons`
DELAY: Final[int]      # float: the initial delay of the daemon or the timer `handler`
ACTIVITIES: Final[int]  # str: JSON [...]: the handlers of activities that are declared by now

class Cycle:
    """One handling cycle of one object: what all calls in it share."""
    uid: str
    resource: int                 # index of `Operator.resource()`
    body: bytes                   # JSON of the object
    type: str | None              # 'ADDED', 'MODIFIED', 'DELETED', None for the listing
    reason: str | None            # 'create', 'update', 'delete', 'resume', 'noop', 'free', 'gone'; None in spies
    old: bytes | None             # JSON of the essence last handled
    new: bytes | None             # JSON of the current essence
    diff: bytes | None            # JSON list of [op, [field...], old, new]
    context: Any                  # free for the front: views, patch, logger of this cycle; None at first
    keeper: Keeper                # the memory of the object

class Keeper:
    """The memory of one object alone, without the cycle or the review that it is from."""
    memory: Any                   # free for the front, kept as long as the object: memo; None at first

class Review:
    """One object under review by webhooks: what all calls for it share."""
    resource: int                 # index of `Operator.resource()`
    body: bytes                   # JSON of the object in question
    old: bytes | None             # JSON of the object before, if there was one
    new: bytes | None             # JSON of the object after, if there will be one
    diff: bytes                   # JSON list of [op, [field...], old, new]
    facts: bytes                  # JSON of {operation, subresource, dryrun, userinfo, headers, sslpeer},
                                  # or of {from_version, to_version} of conversions
    context: Any                  # free for the front; None at first
    keeper: Keeper                # the memory of the object, or a new one if the object is not known

class Live:
    """The newest state of an object, while its daemon or timer is called."""
    def newer_than(self, seen: int | None, /) -> tuple[int, bytes] | None:
        """The number and the JSON of the newest state; None if it is still the one with that number."""

class Job:
    kind: int
    message: str | None
    level: int                    # LOG: as in `logging`
    logger: str                   # LOG: full name, e.g. 'kopf.objects'
    reference: str | None         # LOG: JSON of {apiVersion, kind, name, uid, namespace}
    local: bool                   # LOG: never posted as an event
    error: Any                    # LOG: the exception passed to `fail`/`answer_call`, for the traceback; SUB_DONE: None
    handler: int                  # ACTIVITY, CALL, DELAY: index of the handler as declared, or given by `execute`
    handlers: Sequence[int]       # CHOOSE
    state: str | None             # CHOOSE: JSON {handler id: {"retries": n, "started": iso, "success": bool, "failure": bool}}
    activity: str | None          # ACTIVITY, LOGIN
    review: Review | None         # CALL, FILTERS, TRANSFORM of webhooks: then there is no cycle
    number: int                   # SERVED
    content: str | None           # SERVED, REVIEWED: JSON
    cycle: Cycle                  # CALL, DELAY, FILTERS, CHOOSE, STORAGE_*, TRANSFORM
    retry: int                    # ACTIVITY, CALL
    started: float                # ACTIVITY, CALL: POSIX time
    runtime: float                # ACTIVITY, CALL: seconds
    call_number: int | None       # CALL of daemons and timers, STOP: which call it is
    reasons: int                  # STOP: all the reasons so far, as bits
    live: Live | None             # CALL of daemons and timers
    timeout: float | None         # CALL: cancel the (async) call after so many seconds
    old: bytes | None             # CALL: as in the cycle, reduced to the field of the handler if it has one
    new: bytes | None
    diff: bytes | None
    questions: Sequence[tuple[int, str, bytes | None]]
                                  # FILTERS: (handler, slot, JSON value or None if absent); slots: 'when', 'value', 'old',
                                  # 'new', 'labels.<key>', 'annotations.<key>', 'selector'
    operations: str | None        # STORAGE_READ: JSON list of handler ids & extra fields; STORAGE_WRITE: JSON list of operations
    body: bytes                   # TRANSFORM: the JSON of the freshest body
    uid: str                      # UNINDEX
    ids: Sequence[str]            # UNINDEX: ids of index handlers
    token: Any                    # SUB_DONE: what was given to `execute`
    done: bool                    # SUB_DONE: all sub-handlers are finished
    delay: float | None           # SUB_DONE: when to come again, if not done

    def answer(self, value: Any, /) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...
    def answer_call(
        self,
        result: str | None,       # JSON of the result, None for no result
        patch: str | None,        # JSON of the cycle's patch, None if empty
        transformations: bool,    # whether patch.fns is not empty
        warnings: Sequence[str] = ...,  # of webhooks
    ) -> None: ...
    def fail_call(
        self,
        kind: str,                # 'temporary', 'permanent', 'admission', 'timeout', 'retries', 'children', 'arbitrary', 'cancelled'
        message: str,             # str(error)
        display: str,             # str(error) or repr(error)
        delay: float | None,      # temporary & children
        error: BaseException,     # kept for the traceback in the log
        patch: str | None,
        transformations: bool,
        warnings: Sequence[str] = ...,  # of webhooks
        code: int | None = ...,         # 'admission'
    ) -> None: ...
    def execute(self, handlers: str, lifecycle: str | None, token: Any, /) -> None:
        """CALL: run a round of sub-handlers (JSON declarations); `SUB_DONE` with the token follows."""

class Operator:
    def __init__(self, config: str, /) -> None:
        """JSON: {"activities": [declarations], "namespaces": [patterns], "clusterwide": bool, "version": str, "levels": {logger: level}}"""
    def fileno(self) -> int: ...
    def start(self) -> None: ...
    def take(self) -> list[Job]: ...
    def stop(self, reason: str, /) -> None: ...
    def close(self) -> None: ...
    def set_levels(self, levels: str, /) -> None: ...
    def post_event(self, event: str, backoffs: Sequence[float], /) -> bool:
        """Queue a Kubernetes Event (JSON body with metadata.namespace); False if the queue is full."""
    def announce_webhooks(self, client_config: str, /) -> bool:
        """Tell where the cluster finds the webhooks (JSON); False if there is no admission yet."""
    def serve_webhooks(self, number: int, options: str, /) -> bool:
        """Start the engine's server of webhooks; `SERVED` follows with each address."""
    def stop_webhooks(self, number: int, /) -> None: ...
    def review(self, token: Any, review: str, /) -> bool:
        """Answer a review (JSON {request, webhook, headers, sslpeer}); `REVIEWED` with the token follows."""
    def resource(self, index: int, /) -> str:
        """JSON: {group, version, plural, kind, singular, shortcuts, categories, subresources, namespaced, preferred, verbs}"""

def advance_clock(seconds: float, /) -> None:
    """Move the clock of all operators of this process forward."""
def clock_shift() -> float:
    """How far `advance_clock()` has moved the clock so far, in seconds."""

# Pure helpers of the engine, for storages and structures on this side.
def storage_keys(prefix: str, key: str, v1: bool, /) -> list[str]: ...
def diff(old: str, new: str, /) -> str: ...
def yaml_to_json(text: str, /) -> str:
    """Raises ValueError for what is not YAML, and for YAML that is meant to use up the memory."""
def shrink_essence(
    essence: str, keys: Sequence[str], annotations: str, patched: str, /,
) -> str:
    """The text of an essence to be stored under the keys, beside the other annotations."""
def self_signed(names: Sequence[str], /) -> tuple[str, str]:
    """A self-signed certificate for the names, and its key, both in PEM."""
def describe_certificate(der: bytes, /) -> str:
    """JSON of what Python's `ssl` tells about a certificate; lists instead of tuples."""
