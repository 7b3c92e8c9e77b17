//! Sources of volumes that pods and persistent volumes have in common; most of them are of the past.

use serde_json::json;

use crate::builtin::rules::evaluate::Errors;
use crate::builtin::rules::{Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::FieldError;
use Rule::{Code, Given, Is, Required};
use ValueCheck::{Between, OneOf, Text};

pub(crate) const HOST_PATH: Rules = &[
    Required("path"),
    Is("path", Text(values::no_way_up)),
    Is(
        "type",
        OneOf(&["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"]),
    ),
];
pub(crate) const GIT: Rules = &[Required("repository"), Is("directory", Text(values::relative_path))];
pub(crate) const GCE: Rules = &[Required("pdName"), Given("partition", Between(0, 255))];
pub(crate) const AWS: Rules = &[Required("volumeID"), Given("partition", Between(0, 255))];
pub(crate) const ISCSI: Rules = &[Required("targetPortal"), Required("iqn"), Given("lun", Between(0, 255))];
pub(crate) const GLUSTER: Rules = &[Required("endpoints"), Required("path")];
pub(crate) const FLOCKER: Rules = &[];
pub(crate) const RBD: Rules = &[Required("monitors"), Required("image")];
pub(crate) const CINDER: Rules = &[Required("volumeID")];
pub(crate) const CEPH: Rules = &[Required("monitors")];
pub(crate) const QUOBYTE: Rules = &[Required("registry"), Required("volume")];
pub(crate) const FIBRE_CHANNEL: Rules = &[Code(fibre_channel)];
pub(crate) const FLEX: Rules = &[Required("driver")];
pub(crate) const AZURE_FILE: Rules = &[Required("secretName"), Required("shareName")];
pub(crate) const VSPHERE: Rules = &[Required("volumePath")];
pub(crate) const PHOTON: Rules = &[Required("pdID")];
pub(crate) const PORTWORX: Rules = &[Required("volumeID")];
pub(crate) const AZURE_DISK: Rules = &[Required("diskName"), Required("diskURI"), Code(azure_uri)];
pub(crate) const STORAGE_OS: Rules = &[Required("volumeName")];
pub(crate) const SCALE_IO: Rules = &[Required("gateway"), Required("system"), Required("volumeName")];

fn fibre_channel(channel: &Location<'_>, errors: &mut Errors) {
    let (names, ids) = (channel.list("targetWWNs"), channel.list("wwids"));
    if names.is_empty() && ids.is_empty() {
        let detail = "must specify either targetWWNs or wwids, but not both";
        errors.push(FieldError::required(channel.at("targetWWNs"), detail));
    }
}

fn azure_uri(disk: &Location<'_>, errors: &mut Errors) {
    let (uri, kind) = (disk.text("diskURI"), disk.text("kind"));
    let (managed, prefix, form) = match kind {
        "Managed" => (
            true,
            "/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => (false, "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    let fits = if managed { uri.starts_with("/subscriptions") } else { uri.starts_with(prefix) };
    if !uri.is_empty() && !fits {
        errors.push(FieldError::not_supported(disk.at("diskURI"), json!(uri), &[form.to_owned()]));
    }
}
