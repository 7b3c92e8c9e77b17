//! The messages of OpenAPI documents in protobuf: which field of the JSON has which number.
//!
//! They are those of gnostic's `openapi.v3.Document`, as far as Kubernetes makes use of them; and of
//! `openapi.v2.Document` the definitions.

/// The fields of a message, in the order of their numbers.
#[derive(Debug)]
pub(super) struct Message(pub &'static [MessageField]);

/// Where a part of a JSON object goes.
#[derive(Debug)]
pub(super) struct MessageField {
    pub keys: Keys,
    pub number: u32,
    pub encoding: FieldEncoding,
}

/// Which fields of the JSON object are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// One.
    Name(&'static str),
    /// All of them, each with its name.
    All,
    /// All paths, each with its name.
    Paths,
    /// All codes of answers, such as `200` or `4XX`, each with its name.
    Codes,
    /// All extensions, each with its name.
    Extensions,
}

/// What a value becomes.
#[derive(Debug)]
pub(super) enum FieldEncoding {
    Text,
    Flag,
    Whole,
    Number,
    /// Any value, as YAML.
    Any,
    /// A number, a flag or a text; nothing else can be a default there.
    Default,
    /// A schema, or whether anything is allowed.
    SchemaOrFlag(&'static FieldEncoding),
    /// The schema of items, which could be several.
    Items(&'static FieldEncoding),
    /// The type of a value, which could be several.
    Types,
    Message(&'static Message),
    /// The message itself, or a reference to it.
    OrReference(&'static Message),
    /// A list.
    Each(&'static FieldEncoding),
}

use FieldEncoding::{
    Any, Default, Each, Flag, Items, Message as Of, Number, OrReference, SchemaOrFlag, Text, Types, Whole,
};
use Keys::{All, Codes, Extensions, Paths};

const fn field(name: &'static str, number: u32, encoding: FieldEncoding) -> MessageField {
    MessageField { keys: Keys::Name(name), number, encoding }
}

const fn each(keys: Keys, number: u32, encoding: FieldEncoding) -> MessageField {
    MessageField { keys, number, encoding }
}

pub(super) static DOCUMENT: Message = Message(&[
    field("openapi", 1, Text),
    field("info", 2, Of(&INFO)),
    field("servers", 3, Each(&Of(&SERVER))),
    field("paths", 4, Of(&PATHS)),
    field("components", 5, Of(&COMPONENTS)),
    field("tags", 7, Each(&Of(&TAG))),
    field("externalDocs", 8, Of(&EXTERNAL_DOCS)),
    each(Extensions, 9, Any),
]);

static INFO: Message = Message(&[
    field("title", 1, Text),
    field("description", 2, Text),
    field("termsOfService", 3, Text),
    field("contact", 4, Of(&CONTACT)),
    field("license", 5, Of(&LICENSE)),
    field("version", 6, Text),
    each(Extensions, 7, Any),
    field("summary", 8, Text),
]);

static CONTACT: Message =
    Message(&[field("name", 1, Text), field("url", 2, Text), field("email", 3, Text), each(Extensions, 4, Any)]);

static LICENSE: Message = Message(&[field("name", 1, Text), field("url", 2, Text), each(Extensions, 3, Any)]);

static TAG: Message = Message(&[
    field("name", 1, Text),
    field("description", 2, Text),
    field("externalDocs", 3, Of(&EXTERNAL_DOCS)),
    each(Extensions, 4, Any),
]);

static EXTERNAL_DOCS: Message =
    Message(&[field("description", 1, Text), field("url", 2, Text), each(Extensions, 3, Any)]);

static SERVER: Message = Message(&[
    field("url", 1, Text),
    field("description", 2, Text),
    field("variables", 3, Of(&SERVER_VARIABLES)),
    each(Extensions, 4, Any),
]);

static SERVER_VARIABLES: Message = Message(&[each(All, 1, Of(&SERVER_VARIABLE))]);

static SERVER_VARIABLE: Message = Message(&[
    field("enum", 1, Each(&Text)),
    field("default", 2, Text),
    field("description", 3, Text),
    each(Extensions, 4, Any),
]);

static PATHS: Message = Message(&[each(Paths, 1, Of(&PATH_ITEM)), each(Extensions, 2, Any)]);

static PATH_ITEM: Message = Message(&[
    field("$ref", 1, Text),
    field("summary", 2, Text),
    field("description", 3, Text),
    field("get", 4, Of(&OPERATION)),
    field("put", 5, Of(&OPERATION)),
    field("post", 6, Of(&OPERATION)),
    field("delete", 7, Of(&OPERATION)),
    field("options", 8, Of(&OPERATION)),
    field("head", 9, Of(&OPERATION)),
    field("patch", 10, Of(&OPERATION)),
    field("trace", 11, Of(&OPERATION)),
    field("servers", 12, Each(&Of(&SERVER))),
    field("parameters", 13, Each(&OrReference(&PARAMETER))),
    each(Extensions, 14, Any),
]);

static OPERATION: Message = Message(&[
    field("tags", 1, Each(&Text)),
    field("summary", 2, Text),
    field("description", 3, Text),
    field("externalDocs", 4, Of(&EXTERNAL_DOCS)),
    field("operationId", 5, Text),
    field("parameters", 6, Each(&OrReference(&PARAMETER))),
    field("requestBody", 7, OrReference(&REQUEST_BODY)),
    field("responses", 8, Of(&RESPONSES)),
    field("deprecated", 10, Flag),
    field("servers", 12, Each(&Of(&SERVER))),
    each(Extensions, 13, Any),
]);

static PARAMETER: Message = Message(&[
    field("name", 1, Text),
    field("in", 2, Text),
    field("description", 3, Text),
    field("required", 4, Flag),
    field("deprecated", 5, Flag),
    field("allowEmptyValue", 6, Flag),
    field("style", 7, Text),
    field("explode", 8, Flag),
    field("allowReserved", 9, Flag),
    field("schema", 10, OrReference(&SCHEMA)),
    field("example", 11, Any),
    field("examples", 12, Of(&EXAMPLES)),
    field("content", 13, Of(&MEDIA_TYPES)),
    each(Extensions, 14, Any),
]);

static REQUEST_BODY: Message = Message(&[
    field("description", 1, Text),
    field("content", 2, Of(&MEDIA_TYPES)),
    field("required", 3, Flag),
    each(Extensions, 4, Any),
]);

static RESPONSES: Message = Message(&[
    field("default", 1, OrReference(&RESPONSE)),
    each(Codes, 2, OrReference(&RESPONSE)),
    each(Extensions, 3, Any),
]);

static RESPONSE: Message = Message(&[
    field("description", 1, Text),
    field("headers", 2, Of(&HEADERS)),
    field("content", 3, Of(&MEDIA_TYPES)),
    each(Extensions, 5, Any),
]);

static HEADERS: Message = Message(&[each(All, 1, OrReference(&HEADER))]);

static HEADER: Message = Message(&[
    field("description", 1, Text),
    field("required", 2, Flag),
    field("deprecated", 3, Flag),
    field("allowEmptyValue", 4, Flag),
    field("style", 5, Text),
    field("explode", 6, Flag),
    field("allowReserved", 7, Flag),
    field("schema", 8, OrReference(&SCHEMA)),
    field("example", 9, Any),
    field("examples", 10, Of(&EXAMPLES)),
    field("content", 11, Of(&MEDIA_TYPES)),
    each(Extensions, 12, Any),
]);

static MEDIA_TYPES: Message = Message(&[each(All, 1, Of(&MEDIA_TYPE))]);

static MEDIA_TYPE: Message = Message(&[
    field("schema", 1, OrReference(&SCHEMA)),
    field("example", 2, Any),
    field("examples", 3, Of(&EXAMPLES)),
    each(Extensions, 5, Any),
]);

static EXAMPLES: Message = Message(&[each(All, 1, OrReference(&EXAMPLE))]);

static EXAMPLE: Message = Message(&[
    field("summary", 1, Text),
    field("description", 2, Text),
    field("value", 3, Any),
    field("externalValue", 4, Text),
    each(Extensions, 5, Any),
]);

static COMPONENTS: Message = Message(&[
    field("schemas", 1, Of(&SCHEMAS)),
    field("responses", 2, Of(&RESPONSES_BY_NAME)),
    field("parameters", 3, Of(&PARAMETERS)),
    field("examples", 4, Of(&EXAMPLES)),
    field("requestBodies", 5, Of(&REQUEST_BODIES)),
    field("headers", 6, Of(&HEADERS)),
    field("securitySchemes", 7, Of(&SECURITY_SCHEMES)),
    each(Extensions, 10, Any),
]);

static RESPONSES_BY_NAME: Message = Message(&[each(All, 1, OrReference(&RESPONSE))]);

static PARAMETERS: Message = Message(&[each(All, 1, OrReference(&PARAMETER))]);

static REQUEST_BODIES: Message = Message(&[each(All, 1, OrReference(&REQUEST_BODY))]);

static SECURITY_SCHEMES: Message = Message(&[each(All, 1, OrReference(&SECURITY_SCHEME))]);

static SECURITY_SCHEME: Message = Message(&[
    field("type", 1, Text),
    field("description", 2, Text),
    field("name", 3, Text),
    field("in", 4, Text),
    field("scheme", 5, Text),
    field("bearerFormat", 6, Text),
    field("openIdConnectUrl", 8, Text),
    each(Extensions, 9, Any),
]);

static SCHEMAS: Message = Message(&[each(All, 1, OrReference(&SCHEMA))]);

pub(super) static SCHEMA: Message = Message(&[
    field("nullable", 1, Flag),
    field("discriminator", 2, Of(&DISCRIMINATOR)),
    field("readOnly", 3, Flag),
    field("writeOnly", 4, Flag),
    field("xml", 5, Of(&XML)),
    field("externalDocs", 6, Of(&EXTERNAL_DOCS)),
    field("example", 7, Any),
    field("deprecated", 8, Flag),
    field("title", 9, Text),
    field("multipleOf", 10, Number),
    field("maximum", 11, Number),
    field("exclusiveMaximum", 12, Flag),
    field("minimum", 13, Number),
    field("exclusiveMinimum", 14, Flag),
    field("maxLength", 15, Whole),
    field("minLength", 16, Whole),
    field("pattern", 17, Text),
    field("maxItems", 18, Whole),
    field("minItems", 19, Whole),
    field("uniqueItems", 20, Flag),
    field("maxProperties", 21, Whole),
    field("minProperties", 22, Whole),
    field("required", 23, Each(&Text)),
    field("enum", 24, Each(&Any)),
    field("type", 25, Text),
    field("allOf", 26, Each(&OrReference(&SCHEMA))),
    field("oneOf", 27, Each(&OrReference(&SCHEMA))),
    field("anyOf", 28, Each(&OrReference(&SCHEMA))),
    field("not", 29, Of(&SCHEMA)),
    field("items", 30, Items(&OrReference(&SCHEMA))),
    field("properties", 31, Of(&SCHEMAS)),
    field("additionalProperties", 32, SchemaOrFlag(&OrReference(&SCHEMA))),
    field("default", 33, Default),
    field("description", 34, Text),
    field("format", 35, Text),
    each(Extensions, 36, Any),
]);

static DISCRIMINATOR: Message =
    Message(&[field("propertyName", 1, Text), field("mapping", 2, Of(&MAPPING)), each(Extensions, 3, Any)]);

static MAPPING: Message = Message(&[each(All, 1, Text)]);

static XML: Message = Message(&[
    field("name", 1, Text),
    field("namespace", 2, Text),
    field("prefix", 3, Text),
    field("attribute", 4, Flag),
    field("wrapped", 5, Flag),
    each(Extensions, 6, Any),
]);

pub(super) static REFERENCE: Message =
    Message(&[field("$ref", 1, Text), field("summary", 2, Text), field("description", 3, Text)]);

/// The part of a document of version 2 that is made here.
pub(super) static DEFINITIONS: Message = Message(&[field("definitions", 9, Of(&SCHEMAS_V2))]);

static SCHEMAS_V2: Message = Message(&[each(All, 1, Of(&SCHEMA_V2))]);

static SCHEMA_V2: Message = Message(&[
    field("$ref", 1, Text),
    field("format", 2, Text),
    field("title", 3, Text),
    field("description", 4, Text),
    field("default", 5, Any),
    field("multipleOf", 6, Number),
    field("maximum", 7, Number),
    field("exclusiveMaximum", 8, Flag),
    field("minimum", 9, Number),
    field("exclusiveMinimum", 10, Flag),
    field("maxLength", 11, Whole),
    field("minLength", 12, Whole),
    field("pattern", 13, Text),
    field("maxItems", 14, Whole),
    field("minItems", 15, Whole),
    field("uniqueItems", 16, Flag),
    field("maxProperties", 17, Whole),
    field("minProperties", 18, Whole),
    field("required", 19, Each(&Text)),
    field("enum", 20, Each(&Any)),
    field("additionalProperties", 21, SchemaOrFlag(&Of(&SCHEMA_V2))),
    field("type", 22, Types),
    field("items", 23, Items(&Of(&SCHEMA_V2))),
    field("allOf", 24, Each(&Of(&SCHEMA_V2))),
    field("properties", 25, Of(&SCHEMAS_V2)),
    field("discriminator", 26, Text),
    field("readOnly", 27, Flag),
    field("xml", 28, Of(&XML)),
    field("externalDocs", 29, Of(&EXTERNAL_DOCS)),
    field("example", 30, Any),
    each(Extensions, 31, Any),
]);
