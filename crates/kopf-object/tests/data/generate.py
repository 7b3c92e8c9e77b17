"""
Writes the expected data of the tests, as the reference implementation gives them.

Run with a Python that has kopf 1.45.2 installed:  python tests/data/generate.py
"""
import json
import pathlib
import random

from kopf._cogs.configs.conventions import StorageKeyFormingConvention
from kopf._cogs.configs.diffbase import AnnotationsDiffBaseStorage, MultiDiffBaseStorage, StatusDiffBaseStorage
from kopf._cogs.configs.progress import AnnotationsProgressStorage, SmartProgressStorage, StatusProgressStorage
from kopf._cogs.structs import dicts, diffs
from kopf._cogs.structs.bodies import Body
from kopf._cogs.structs.finalizers import allow_deletion, block_deletion
from kopf._cogs.structs.patches import Patch
from kopf._core.actions.application import KNOWN_INCONSISTENCIES

FOLDER = pathlib.Path(__file__).parent
RANDOM = random.Random(1)


def write(name, rows):
    text = ",\n".join(json.dumps(row) for row in rows)
    (FOLDER / f"{name}.json").write_text(f"[\n{text}\n]\n")


# --- JSON text

def floats():
    yield from [0.0, -0.0, 1.0, -1.0, 0.1, 0.5, 1.5, 100.0, 123456.789, 1e15, 1e16, 1e17, 1e21, 1e22, 1e23, 1e-3, 1e-4, 1e-5]
    yield from [0.0001234, 0.00001234, 9999999999999998.0, 12345678901234567.0, 123456789012345680.0, 1.5e300, 1.5e-300]
    yield from [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.30000000000000004, 1 / 3, 2 / 3, 3.14, 2.5e-7]
    yield from [4.35, 0.000123, 1e100, 1e-100, 9007199254740993.0, 9.5367431640625e-07, 8.41e21, 2.0**70, 2.0**-70]
    for _ in range(300):
        yield RANDOM.uniform(-1, 1) * 10.0 ** RANDOM.randint(-30, 30)


def texts():
    yield from ["", "plain", "quote\" back\\ slash/ ", "\n\r\t\b\f", "\x00\x01\x1f\x7f\x80", "é", "ß—“”", "\u2028\u2029"]
    yield from ["日本語", "😀", "a😀b", "\uffff\ufffe", "\U0010ffff", "<script>&'", "{\"nested\":\"json\"}\n", "~ ~"]


def values():
    yield from [None, True, False, 0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, [], {}, [[]], [{}], {"": None}]
    yield from [{"b": 1, "a": [1, "x", None, {"c": 0.5}]}, {"é": {"😀": ["\x7f"]}}, [1, [2, [3, [4.0]]]]]
    yield from floats()
    yield from texts()


write("python_json", [[json.dumps(v, separators=(",", ":")), json.dumps(v)] for v in values()])


# --- Keys of annotations

IDS = [
    "fn", "create_fn", "create_fn/spec.field", "outer.<locals>.inner", "a/b/c", "update/sub<1>", "last-handled-configuration", "touch-dummy",
    "x" * 62, "x" * 63, "x" * 64, "x" * 200, "y" * 45, "y" * 46, "y" * 47, "handler/" + "field." * 12 + "z", "й" * 40, "й" * 63, "й" * 64,
    "日本" * 40, "😀" * 64, "a_very_long_function_name_of_a_handler/spec.some.deeply.nested.structure.field",
    "a_very_long_function_name_of_a_handler/<lambda>/spec.some.deeply.nested.structure.field", "", "/", "-", "a.b-c_d",
] + [f"long-handler-id-number-{i}/" + "s" * 40 for i in range(6)]
PREFIXES = ["kopf.zalando.org", "example.com", "a" * 40 + ".example.com", "b" * 62, "c" * 63, "d" * 70, "ünïcode.example.com"]
REPLICASETS = [
    {"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"kind": "Deployment"}]}},
    {"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"kind": "Other"}, {"kind": "Deployment"}]}},
    {"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"kind": "Rollout"}]}},
    {"kind": "ReplicaSet", "metadata": {}},
    {"kind": "Pod", "metadata": {"ownerReferences": [{"kind": "Deployment"}]}},
    {"metadata": {}},
    None,
]


def key_rows():
    for prefix in PREFIXES:
        for handler_id in IDS:
            convention = StorageKeyFormingConvention(prefix=prefix, v1=True)
            yield [prefix, handler_id, None, list(convention.make_keys(handler_id))]
    for body in REPLICASETS:
        for handler_id in ["fn", "last-handled-configuration", "x" * 60]:
            convention = StorageKeyFormingConvention(prefix="kopf.zalando.org", v1=True)
            wrapped = None if body is None else Body(body)
            yield ["kopf.zalando.org", handler_id, body, list(convention.make_keys(handler_id, body=wrapped))]


write("keys", key_rows())


# --- Diffs

def small_json(depth=0):
    kind = RANDOM.randint(0, 9 if depth < 3 else 5)
    if kind >= 8:
        return [small_json(depth + 1) for _ in range(RANDOM.randint(0, 2))]
    if kind >= 6 or depth == 0:
        return {RANDOM.choice("abcd"): small_json(depth + 1) for _ in range(RANDOM.randint(0, 4))}
    return RANDOM.choice([None, True, False, 0, 1, 1.0, 2, 2.5, "", "x", "y", 0.0])


PAIRS = [
    (None, None), (1, True), (1, 1.0), (0, False), (0, 0.0), (2**53 + 1, float(2**53)), (2**53, float(2**53)), ([1], [True]), ([1], [2]),
    ({"x": None}, {}), ({}, {"x": None}), ({"x": 1}, {"x": None}), ({"x": None}, {"x": 1}), ({"x": {}}, {}), ({}, {"x": {"y": None}}),
    ({"x": [{"a": None}]}, {"x": [{}]}), (None, {}), ({}, None), ({"a": 1}, 5), (5, {"a": 1}), ({"a": {"b": 1}}, {"a": {"b": 2, "c": 3}}),
    ({"a": "1"}, {"a": 1}), ({"a": True}, {"a": "true"}), ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}), (-1, 2**64 - 1),
] + [(small_json(), small_json()) for _ in range(150)]
FIELDS = [["a"], ["a", "b"], ["d", "d"]]


def items(diff):
    return sorted(([str(op), list(field), old, new] for op, field, old, new in diff), key=json.dumps)


def diff_rows():
    for old, new in PAIRS:
        full = diffs.diff(old, new)
        left = diffs.diff(old, new, scope=diffs.DiffScope.LEFT)
        reduced = [[field, items(diffs.reduce(full, tuple(field)))] for field in FIELDS]
        yield {"old": old, "new": new, "diff": items(full), "left": items(left), "reduced": reduced}


write("diffs", diff_rows())


def inconsistency_rows():
    for patch, body in [
        ({"status": {"a": 1}}, {"status": {"a": 1, "b": 2}}),
        ({"status": {"a": 1}}, {}),
        ({"status": {"a": None}}, {"status": {}}),
        ({"status": {"a": None}}, {}),
        ({"status": {}}, {}),
        ({"spec": {"a": []}}, {"spec": {}}),
        ({"metadata": {"labels": {}}}, {"metadata": {}}),
        ({"metadata": {"annotations": {}, "finalizers": []}}, {"metadata": {"name": "x"}}),
        ({"metadata": {"labels": {"a": None}}}, {"metadata": {}}),
        ({"metadata": {"labels": {"a": "b"}}}, {"metadata": {}}),
        ({"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"a": "c"}}}),
        ({"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {"a": "c"}}}),
        ({"metadata": {"finalizers": []}}, {"metadata": {"finalizers": ["x"]}}),
        ({"metadata": {"labels": None}}, {"metadata": {"labels": {}}}),
        ({"status": {"n": 1.0}}, {"status": {"n": 1}}),
    ]:
        found = diffs.diff(patch, body, scope=diffs.DiffScope.LEFT)
        yield [patch, body, items(i for i in found if i.old or i.new or i.field not in KNOWN_INCONSISTENCIES)]


write("inconsistencies", inconsistency_rows())


# --- Fields of dicts

def removal_rows():
    for source, field in [
        ({"a": {"b": {"c": 1}}}, "a.b.c"), ({"a": {"b": {"c": 1}, "z": 0}}, "a.b.c"), ({"a": {}}, "a.b"), ({"a": {"b": {}}}, "a.b.c"),
        ({"a": 1}, "a.b"), ({"a": None}, "a.b"), ({"a": []}, "a.b"), ({"a": {"x": 1}}, "b.c"), ({"a": {"b": {"x": {}}}}, "a.b.x"),
        ({"a": {"b": {"x": {}}}}, "a.b.x.y"), ({"a": {"b": 1}}, "a.q.z"), ({"a": 1, "b": 2, "c": 3}, "a"), ({"a": {"b": {}, "c": {}}}, "a.b"),
        ({"a": {"b": {"q": 1}}, "x": 1, "y": 2}, "a.b.q"), ({"": 1, "b": 2}, ""), ({"a": {"b": "text"}}, "a.b.c"),
    ]:
        result = json.loads(json.dumps(source))
        try:
            dicts.remove(result, field)
        except TypeError:
            pass
        yield [json.dumps(source), field, json.dumps(result)]


write("removals", removal_rows())


# --- Essences

BODY = {
    "apiVersion": "example.com/v1",
    "metadata": {
        "name": "x", "uid": "u", "resourceVersion": "1", "finalizers": ["f"],
        "annotations": {
            "z": "1", "kopf.zalando.org/last-handled-configuration": "{}\n", "kopf.zalando.org/fn": "{}", "a": "é",
            "sub.kopf.zalando.org/x": "1", "notkopf.zalando.org/x": "kept", "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "other.example.com/kopf-managed": "yes", "other.example.com/thing": "1", "other.example.com.au/thing": "kept", "kopf-managed": "kept",
            "mine.example.com/fn": "{}", "mine.example.com/last-handled-configuration": "{}\n", "a/b/kopf-managed": "kept",
        },
        "labels": {"l2": "2", "l1": "1"},
    },
    "spec": {"b": [1, 2.0, 1e16, None], "a": {"n": None, "deep": {"x": 1}}},
    "kind": "Thing",
    "status": {"s2": 2, "s1": {"deep": [1]}, "kopf": {"progress": {"fn": {"retries": 1}}, "last-handled-configuration": "{}"}},
    "data": {"k": "v"},
}
BODIES = [
    BODY,
    {},
    {"metadata": {}},
    {"metadata": {"name": "x"}, "spec": {}, "status": {}},
    {"metadata": {"labels": {}, "annotations": {}}, "spec": {"x": 1}},
    {"spec": {"x": 1}, "metadata": {"annotations": {"kopf.zalando.org/fn": "{}"}, "labels": {"a": "b"}}},
    {"metadata": {"labels": None}, "spec": {}},
    {"kind": "ConfigMap", "metadata": {"annotations": {"kopf.dev/x": "kept", "x/y": "z"}}, "data": {"é": "ü"}, "binaryData": {}},
    {"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"kind": "Deployment"}], "annotations": {
        "mine.example.com/last-handled-configuration": "parent's", "mine.example.com/last-handled-configuration-ofDRS": "own"}}},
]
EXTRAS = [[], ["status.s1"], ["status.s2", "status.s1.deep"], ["status"], ["metadata.annotations"], ["metadata.name", "status.absent"], ["spec.a.n"], ["metadata"]]
IGNORED = [[], ["spec.b"], ["metadata.labels.l1", "metadata.labels.l2", "spec.a.deep.x"], ["status"], ["spec.b.c.d"], ["metadata.annotations.a"]]


def essence_rows():
    for index, body in enumerate(BODIES):
        for extra in EXTRAS:
            for ignored in IGNORED if index == 0 and len(extra) < 2 else [[]]:
                for prefix in ["kopf.zalando.org", "mine.example.com"]:
                    storage = AnnotationsDiffBaseStorage(prefix=prefix, ignored_fields=ignored)
                    own_keys = list(storage.make_keys(storage.key, body=Body(body)))
                    essence = storage.build(body=Body(body), extra_fields=extra)
                    patch = Patch()
                    storage.store(body=Body(body), patch=patch, essence=essence)
                    encoded = patch.metadata.annotations[own_keys[0]]
                    cleared = AnnotationsProgressStorage(prefix=prefix).clear(essence=essence)
                    cleared = StatusProgressStorage().clear(essence=cleared)
                    yield {
                        "body": index, "extra": extra, "ignored": ignored, "prefix": prefix, "annotations": own_keys, "fields": [],
                        "encoded": encoded, "cleared": json.dumps(cleared, separators=(",", ":")) + "\n",
                    }
            storage = StatusDiffBaseStorage()
            essence = storage.build(body=Body(body), extra_fields=extra)
            cleared = SmartProgressStorage().clear(essence=essence)
            yield {
                "body": index, "extra": extra, "ignored": [], "prefix": "kopf.zalando.org", "annotations": [],
                "fields": [".".join(storage.field)], "encoded": json.dumps(essence, separators=(",", ":")) + "\n",
                "cleared": json.dumps(cleared, separators=(",", ":")) + "\n",
            }


write("bodies", BODIES)
write("essences", essence_rows())


# --- Finalizers

def finalizer_rows():
    for finalizers in [None, ["a"], ["a", "b"], ["f"], ["f", "f"], ["a", "f"], ["f", "b"], ["a", "f", "b"], ["a", "f", "f"], ["f", "a", "f"]]:
        body = {"metadata": {"name": "x", "resourceVersion": "5"}}
        if finalizers is not None:
            body["metadata"]["finalizers"] = finalizers
        results = []
        for function in [block_deletion, allow_deletion]:
            changed = json.loads(json.dumps(body))
            function(changed, finalizer="f")
            results.append(changed)
        yield [body, *results]


write("finalizers", finalizer_rows())
