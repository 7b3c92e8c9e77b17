//! Fuzz targets: one function for every parser of untrusted input. None may panic or loop for long.
//!
//! `fuzz/fuzz_targets/` passes them to libFuzzer (`cargo +nightly fuzz run label_selector`); the unit test
//! below runs the same functions with random bytes and mutated seeds.

use std::sync::LazyLock;

use bytes::Bytes;
use http_body_util::Full;
use serde_json::{Map, Value, json};
use tower_service::Service;

use super::Cluster;
use crate::catalog::{Catalog, definitions};
use crate::codec::{json, protobuf, yaml};
use crate::patching::{apply_json_patch, apply_merge, apply_strategic};
use crate::request::query::{ListOptions, Query, WriteOptions};
use crate::request::representation::Representation;
use crate::request::routes;
use crate::schema::{Schema, duplicate_fields};
use crate::store::persistence::record::{Header, decode_all};
use crate::support::options::Options;
use crate::values::cel;
use crate::values::jsonpath::JsonPath;
use crate::values::selector::{FieldSelector, LabelSelector};

/// A parser, and valid input for it.
pub struct FuzzTarget {
    pub name: &'static str,
    pub run: fn(&[u8]),
    pub seeds: &'static [&'static [u8]],
}

/// All parsers.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "path",
        run: path,
        seeds: &[b"/api/v1/namespaces/a/pods/b%2Fc/status", b"/apis/apps/v1/watch/deployments", b"/openapi/v3/api/v1"],
    },
    FuzzTarget {
        name: "query",
        run: query,
        seeds: &[
            b"labelSelector=a%3Db&limit=5&continue=abc&watch=1&resourceVersion=7",
            b"dryRun=All&fieldManager=m&fieldValidation=Strict&timeoutSeconds=9",
        ],
    },
    FuzzTarget { name: "label_selector", run: label_selector, seeds: &[b"a=b,c!=d,e in (f,g),!h,i>5", b"x/y notin (a),z"] },
    FuzzTarget {
        name: "field_selector",
        run: field_selector,
        seeds: &[b"metadata.name=a,status.phase!=Running", b"a=b\\,c\\=d"],
    },
    FuzzTarget {
        name: "accept",
        run: accept,
        seeds: &[b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", b"*/*;q=0.5"],
    },
    FuzzTarget { name: "json", run: json_document, seeds: &[br#"{"a":[1,-2.5e3,true,null,"\u00e9\ud83d\ude00"]}"#] },
    FuzzTarget {
        name: "yaml",
        run: yaml_document,
        seeds: &[b"a: &x {b: [1, 2.5, yes]}\nc: *x\nd: |\n  text\n---\ne: f\n", b"{a: !!str 1, <<: {b: c}}"],
    },
    FuzzTarget {
        name: "json_patch",
        run: json_patch,
        seeds: &[br#"[{"a":[1,2]},[{"op":"add","path":"/a/-","value":3},{"op":"copy","from":"/a","path":"/b~1c"},{"op":"move","from":"/a/0","path":"/d"},{"op":"test","path":"/d","value":1}]]"#],
    },
    FuzzTarget { name: "merge_patch", run: merge_patch, seeds: &[br#"[{"a":{"b":1}},{"a":{"b":null,"c":[1]}}]"#] },
    FuzzTarget {
        name: "strategic_patch",
        run: strategic_patch,
        seeds: &[br#"[{"spec":{"containers":[{"name":"a","image":"b"}]}},{"spec":{"$setElementOrder/containers":[{"name":"c"},{"name":"a"}],"containers":[{"name":"c"},{"$patch":"delete","name":"a"}]},"metadata":{"$retainKeys":["name"]}}]"#],
    },
    FuzzTarget { name: "protobuf", run: protobuf_body, seeds: &[b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Event\x12\x04\x0a\x02\x0a\0"] },
    FuzzTarget {
        name: "jsonpath",
        run: json_path,
        seeds: &[b".spec.containers[*].name", b".a['b.c'][0]", b".status.conditions[?(@.type==\"Ready\")].status"],
    },
    FuzzTarget {
        name: "schema",
        run: schema,
        seeds: &[br#"[{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","pattern":"^x+$","maxLength":3},"x-kubernetes-list-type":"set"},"b":{"x-kubernetes-int-or-string":true},"c":{"type":"object","default":{"d":1},"additionalProperties":{"type":"integer","minimum":1}}},"x-kubernetes-validations":[{"rule":"!has(self.b) || self.b > 1","message":"no"}]},{"a":["x","y"],"b":"1","c":{"e":0},"z":1}]"#],
    },
    FuzzTarget { name: "cel", run: cel_expression, seeds: &[b"self.a.all(x, x > 1 && x.startsWith('b')) ? [1, 2] : {'k': -3}"] },
    FuzzTarget { name: "records", run: records, seeds: &[b"KOPFDATA\x01\0\0\0L\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0"] },
    FuzzTarget {
        name: "request",
        run: request,
        seeds: &[
            b"\x00{\"metadata\":{\"name\":\"a\"},\"data\":{\"b\":\"c\"}}",
            b"\x01metadata: {name: a}\ndata: {b: c}\n",
            b"\x02{\"data\":{\"b\":null}}",
            b"\x03[{\"op\":\"add\",\"path\":\"/data\",\"value\":{}}]",
            b"\x04{\"spec\":{\"containers\":[{\"name\":\"a\"}]}}",
            b"\x05apiVersion: v1\nkind: ConfigMap\ndata: {x: y}\n",
            b"\x06{\"spec\":{\"group\":\"e.com\",\"scope\":\"Namespaced\",\"names\":{\"plural\":\"as\",\"kind\":\"A\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}}}]},\"metadata\":{\"name\":\"as.e.com\"}}",
            b"\x07{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"b\",\"ports\":[{\"containerPort\":80}]}]}}",
            b"\x08{\"propagationPolicy\":\"Foreground\",\"preconditions\":{\"uid\":\"x\"}}",
        ],
    },
];

/// Runs one target by its name.
#[cfg(feature = "fuzzing")]
pub fn run(name: &str, data: &[u8]) {
    TARGETS.iter().filter(|target| target.name == name).for_each(|target| (target.run)(data));
}

fn path(data: &[u8]) {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::built_in);
    let _ = routes::find(&CATALOG, &String::from_utf8_lossy(data));
}

fn query(data: &[u8]) {
    let query = Query::parse(&String::from_utf8_lossy(data));
    let _ = ListOptions::parse(&query, false);
    let _ = ListOptions::parse(&query, true);
    let _ = WriteOptions::parse(&query, "PatchOptions");
}

fn label_selector(data: &[u8]) {
    let _ = LabelSelector::parse(&String::from_utf8_lossy(data));
}

fn field_selector(data: &[u8]) {
    if let Ok(selector) = FieldSelector::parse(&String::from_utf8_lossy(data)) {
        selector.matches(|_| String::new());
    }
}

fn accept(data: &[u8]) {
    let _ = Representation::negotiate(&String::from_utf8_lossy(data), &Query::default());
}

fn json_document(data: &[u8]) {
    let _ = json::parse(data);
    let _ = json::summary(data);
    let _ = duplicate_fields(data);
}

fn yaml_document(data: &[u8]) {
    let _ = yaml::parse(data);
}

/// Two documents in one list.
fn pair(data: &[u8]) -> Option<(Value, Value)> {
    match json::parse(data).ok()? {
        Value::Array(items) => <[Value; 2]>::try_from(items).ok().map(|[one, other]| (one, other)),
        _ => None,
    }
}

fn json_patch(data: &[u8]) {
    if let Some((object, patch)) = pair(data) {
        let _ = apply_json_patch(&object, &patch);
    }
}

fn merge_patch(data: &[u8]) {
    if let Some((object, patch)) = pair(data) {
        let merged = apply_merge(&object, &patch);
        // Merging the same patch again changes nothing.
        assert_eq!(apply_merge(&merged, &patch), merged);
    }
}

fn strategic_patch(data: &[u8]) {
    static POD: LazyLock<Option<Schema>> = LazyLock::new(|| {
        let document = definitions("", "v1")?;
        let schemas = document["components"]["schemas"].as_object()?;
        Schema::of_definition("io.k8s.api.core.v1.Pod", schemas).ok()
    });
    if let (Some((object, patch)), Some(schema)) = (pair(data), &*POD) {
        let _ = apply_strategic(schema, &object, &patch);
    }
}

fn protobuf_body(data: &[u8]) {
    let _ = protobuf::decode(data);
}

fn json_path(data: &[u8]) {
    let value = json!({"spec": {"containers": [{"name": "a"}]}, "a": {"b.c": [1]}});
    if let Some(path) = JsonPath::parse(&String::from_utf8_lossy(data)) {
        path.find_all(&value);
    }
}

fn schema(data: &[u8]) {
    let Some((schema, mut value)) = pair(data) else { return };
    let Ok(schema) = Schema::of_custom_resource(&schema, &Map::new()) else { return };
    schema.unknown_fields(&value);
    schema.prune(&mut value);
    schema.default(&mut value);
    schema.validate(&value, Some(&value));
}

fn cel_expression(data: &[u8]) {
    let _ = cel::compile(&String::from_utf8_lossy(data));
}

fn records(data: &[u8]) {
    let _ = Header::decode(data);
    let _ = decode_all(data);
}

/// A whole request: the first byte selects it, the rest is its body.
fn request(data: &[u8]) {
    static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster::new(Options { seed: Some(1), ..Options::default() }));
    const MAP: &str = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
    let Some((which, body)) = data.split_first() else { return };
    let (method, path, media_type) = match which % 9 {
        0 => ("POST", "/api/v1/namespaces/default/configmaps", "application/json"),
        1 => ("POST", "/api/v1/namespaces/default/configmaps", "application/yaml"),
        2 => ("PATCH", MAP, "application/merge-patch+json"),
        3 => ("PATCH", MAP, "application/json-patch+json"),
        4 => ("PATCH", MAP, "application/strategic-merge-patch+json"),
        5 => ("PATCH", "/api/v1/namespaces/default/configmaps/x?fieldManager=m", "application/apply-patch+yaml"),
        6 => ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All", "application/json"),
        7 => ("POST", "/api/v1/namespaces/default/pods?dryRun=All", "application/json"),
        _ => ("DELETE", "/api/v1/namespaces/default/configmaps/x", "application/json"),
    };
    let request = http::Request::builder().method(method).uri(path).header("content-type", media_type);
    let Ok(request) = request.body(Full::new(Bytes::copy_from_slice(body))) else { return };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let response = runtime.block_on(CLUSTER.service().call(request));
    // The service catches panics, and responds with this.
    let panicked = response.is_ok_and(|response| response.status() == 500);
    assert!(!panicked, "{method} {path}");
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// How long each parser runs; longer with `KOPF_FUZZ_SECONDS`.
    const TIME: Duration = Duration::from_millis(150);

    /// SplitMix64, as in `support/clock.rs`; the seed is fixed, so that a failure repeats.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
        }

        /// A few changes of a seed: bytes flipped, cut, repeated, put in.
        fn mutate(&mut self, seed: &[u8]) -> Vec<u8> {
            const INTERESTING: &[&[u8]] = &[
                b"\"",
                b"{",
                b"}",
                b"[",
                b"]",
                b",",
                b":",
                b"null",
                b"-1",
                b"1e99",
                b"\\",
                b"\0",
                b"\xff",
                b"%",
                b"/",
                b"(",
                b"$",
                b"9223372036854775808",
            ];
            let mut bytes = seed.to_vec();
            for _ in 0..=self.below(6) {
                let at = self.below(bytes.len() + 1);
                match self.below(5) {
                    0 if !bytes.is_empty() => {
                        let at = at.min(bytes.len() - 1);
                        bytes[at] ^= 1 << self.below(8);
                    }
                    1 => bytes.truncate(at),
                    2 => {
                        let piece = bytes[at..(at + self.below(16)).min(bytes.len())].to_vec();
                        let to = self.below(bytes.len() + 1);
                        bytes.splice(to..to, piece);
                    }
                    3 => {
                        let end = (at + self.below(8)).min(bytes.len());
                        bytes.drain(at..end);
                    }
                    _ => {
                        let word = INTERESTING[self.below(INTERESTING.len())];
                        bytes.splice(at..at, word.iter().copied());
                    }
                }
            }
            bytes
        }
    }

    fn drive(target: &FuzzTarget) {
        let seconds = std::env::var("KOPF_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
        let end = Instant::now() + seconds.map_or(TIME, Duration::from_secs);
        let mut random = Random(7);
        let mut corpus: Vec<Vec<u8>> = target.seeds.iter().map(|seed| seed.to_vec()).collect();
        corpus.iter().for_each(|seed| (target.run)(seed));
        (target.run)(&[]);
        while Instant::now() < end {
            let data = match random.below(8) {
                0 => (0..random.below(64)).map(|_| random.below(256) as u8).collect(),
                _ => {
                    let seed = &corpus[random.below(corpus.len())].clone();
                    random.mutate(seed)
                }
            };
            let begin = Instant::now();
            (target.run)(&data);
            assert!(begin.elapsed() < Duration::from_secs(5), "{} took too long: {data:?}", target.name);
            if corpus.len() < 64 && random.below(16) == 0 {
                corpus.push(data);
            }
        }
    }

    #[test]
    fn no_parser_panics() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/fuzz_targets")).unwrap();
        for file in files {
            let name = file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
            assert!(names.contains(&name.as_str()), "{name} is not among the targets");
        }
        let driven: Vec<_> = TARGETS
            .iter()
            .map(|target| {
                let path = format!("{}/fuzz/fuzz_targets/{}.rs", env!("CARGO_MANIFEST_DIR"), target.name);
                assert!(std::path::Path::new(&path).exists(), "{path} is missing");
                (target.name, std::thread::spawn(|| drive(target)))
            })
            .collect();
        for (name, thread) in driven {
            assert!(thread.join().is_ok(), "{name} panicked");
        }
    }
}
