//! The tables of defaults: paths and values in JSON.
//!
//! `[]` stands for every item of a list. A field with `!` is as good as missing when it is zero; one
//! with `?` is filled in only where nothing but a name is given.

/// Paths below a pod template or a pod.
pub(super) const POD: &[(&str, &str)] = &[
    ("restartPolicy", "\"Always\""),
    ("terminationGracePeriodSeconds", "30"),
    ("dnsPolicy", "\"ClusterFirst\""),
    ("securityContext", "{}"),
    ("schedulerName", "\"default-scheduler\""),
    ("volumes[].emptyDir?", "{}"),
    ("volumes[].secret.defaultMode", "420"),
    ("volumes[].configMap.defaultMode", "420"),
    ("volumes[].projected.defaultMode", "420"),
    ("volumes[].downwardAPI.defaultMode", "420"),
    ("volumes[].hostPath.type", "\"\""),
    ("volumes[].downwardAPI.items[].fieldRef.apiVersion", "\"v1\""),
    ("volumes[].downwardAPI.items[].resourceFieldRef.divisor", "\"0\""),
    ("volumes[].projected.sources[].downwardAPI.items[].fieldRef.apiVersion", "\"v1\""),
    ("volumes[].projected.sources[].serviceAccountToken.expirationSeconds", "3600"),
    ("volumes[].ephemeral.volumeClaimTemplate.spec.volumeMode", "\"Filesystem\""),
    ("volumes[].iscsi.iscsiInterface", "\"default\""),
    ("volumes[].rbd.pool", "\"rbd\""),
    ("volumes[].rbd.user", "\"admin\""),
    ("volumes[].rbd.keyring", "\"/etc/ceph/keyring\""),
    ("volumes[].azureDisk.cachingMode", "\"ReadWrite\""),
    ("volumes[].azureDisk.kind", "\"Shared\""),
    ("volumes[].azureDisk.fsType", "\"ext4\""),
    ("volumes[].azureDisk.readOnly", "false"),
    ("volumes[].scaleIO.storageMode", "\"ThinProvisioned\""),
    ("volumes[].scaleIO.fsType", "\"xfs\""),
];

/// Paths below each container.
pub(super) const CONTAINER: &[(&str, &str)] = &[
    ("resources", "{}"),
    ("terminationMessagePath", "\"/dev/termination-log\""),
    ("terminationMessagePolicy", "\"File\""),
    ("ports[].protocol", "\"TCP\""),
    ("env[].valueFrom.fieldRef.apiVersion", "\"v1\""),
    ("livenessProbe.timeoutSeconds!", "1"),
    ("livenessProbe.periodSeconds!", "10"),
    ("livenessProbe.successThreshold!", "1"),
    ("livenessProbe.failureThreshold!", "3"),
    ("livenessProbe.httpGet.path", "\"/\""),
    ("livenessProbe.httpGet.scheme", "\"HTTP\""),
    ("livenessProbe.grpc.service", "\"\""),
    ("readinessProbe.timeoutSeconds!", "1"),
    ("readinessProbe.periodSeconds!", "10"),
    ("readinessProbe.successThreshold!", "1"),
    ("readinessProbe.failureThreshold!", "3"),
    ("readinessProbe.httpGet.path", "\"/\""),
    ("readinessProbe.httpGet.scheme", "\"HTTP\""),
    ("readinessProbe.grpc.service", "\"\""),
    ("lifecycle.postStart.httpGet.path", "\"/\""),
    ("lifecycle.postStart.httpGet.scheme", "\"HTTP\""),
    ("lifecycle.preStop.httpGet.path", "\"/\""),
    ("lifecycle.preStop.httpGet.scheme", "\"HTTP\""),
    ("env[].valueFrom.resourceFieldRef.divisor", "\"0\""),
    ("startupProbe.timeoutSeconds!", "1"),
    ("startupProbe.periodSeconds!", "10"),
    ("startupProbe.successThreshold!", "1"),
    ("startupProbe.failureThreshold!", "3"),
    ("startupProbe.httpGet.path", "\"/\""),
    ("startupProbe.httpGet.scheme", "\"HTTP\""),
    ("startupProbe.grpc.service", "\"\""),
];

/// Paths of whole objects, by `plural.group`.
pub(super) const KINDS: &[(&str, &[(&str, &str)])] = &[
    ("pods", &[("spec.enableServiceLinks", "true")]),
    ("endpoints", &[("subsets[].ports[].protocol", "\"TCP\"")]),
    (
        "endpointslices.discovery.k8s.io",
        &[("endpoints[].conditions", "{}"), ("ports[].name", "\"\""), ("ports[].protocol", "\"TCP\"")],
    ),
    (
        "deployments.apps",
        &[
            ("spec.replicas", "1"),
            ("spec.strategy", "{}"),
            ("spec.strategy.type", "\"RollingUpdate\""),
            ("spec.revisionHistoryLimit", "10"),
            ("spec.progressDeadlineSeconds", "600"),
        ],
    ),
    ("replicasets.apps", &[("spec.replicas", "1")]),
    ("replicationcontrollers", &[("spec.replicas", "1")]),
    (
        "statefulsets.apps",
        &[
            ("spec.replicas", "1"),
            ("spec.podManagementPolicy", "\"OrderedReady\""),
            ("spec.updateStrategy", "{}"),
            ("spec.updateStrategy.type", "\"RollingUpdate\""),
            ("spec.revisionHistoryLimit", "10"),
            ("spec.persistentVolumeClaimRetentionPolicy", "{\"whenDeleted\":\"Retain\",\"whenScaled\":\"Retain\"}"),
        ],
    ),
    (
        "daemonsets.apps",
        &[
            ("spec.updateStrategy", "{}"),
            ("spec.updateStrategy.type", "\"RollingUpdate\""),
            ("spec.revisionHistoryLimit", "10"),
        ],
    ),
    (
        "jobs.batch",
        &[
            ("spec.parallelism", "1"),
            ("spec.backoffLimit", "6"),
            ("spec.completionMode", "\"NonIndexed\""),
            ("spec.suspend", "false"),
            ("spec.manualSelector", "false"),
            ("spec.template.metadata", "{}"),
            ("spec.podReplacementPolicy", "\"TerminatingOrFailed\""),
            ("spec.podFailurePolicy.rules[].onPodConditions[].status", "\"True\""),
        ],
    ),
    (
        "cronjobs.batch",
        &[
            ("spec.concurrencyPolicy", "\"Allow\""),
            ("spec.suspend", "false"),
            ("spec.successfulJobsHistoryLimit", "3"),
            ("spec.failedJobsHistoryLimit", "1"),
            ("spec.jobTemplate.metadata", "{}"),
            ("spec.jobTemplate.spec.template.metadata", "{}"),
        ],
    ),
    (
        "services",
        &[("spec.type", "\"ClusterIP\""), ("spec.sessionAffinity", "\"None\""), ("spec.ports[].protocol", "\"TCP\"")],
    ),
    ("secrets", &[("type", "\"Opaque\"")]),
    ("persistentvolumeclaims", &[("spec.volumeMode", "\"Filesystem\"")]),
    (
        "persistentvolumes",
        &[
            ("spec.volumeMode", "\"Filesystem\""),
            ("spec.persistentVolumeReclaimPolicy", "\"Retain\""),
            ("spec.hostPath.type", "\"\""),
        ],
    ),
    ("horizontalpodautoscalers.autoscaling", &[("spec.minReplicas", "1")]),
    ("ingressclasses.networking.k8s.io", &[("spec.parameters.scope", "\"Cluster\"")]),
    (
        "networkpolicies.networking.k8s.io",
        &[("spec.ingress[].ports[].protocol", "\"TCP\""), ("spec.egress[].ports[].protocol", "\"TCP\"")],
    ),
    (
        "csidrivers.storage.k8s.io",
        &[
            ("spec", "{}"),
            ("spec.attachRequired", "true"),
            ("spec.podInfoOnMount", "false"),
            ("spec.storageCapacity", "false"),
            ("spec.fsGroupPolicy", "\"ReadWriteOnceWithFSType\""),
            ("spec.requiresRepublish", "false"),
            ("spec.seLinuxMount", "false"),
        ],
    ),
    ("rolebindings.rbac.authorization.k8s.io", ROLE_REFERENCE),
    ("clusterrolebindings.rbac.authorization.k8s.io", ROLE_REFERENCE),
    (
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
        &[
            ("spec.exempt.nominalConcurrencyShares", "0"),
            ("spec.exempt.lendablePercent", "0"),
            ("spec.limited.nominalConcurrencyShares", "30"),
            ("spec.limited.lendablePercent", "0"),
            ("spec.limited.limitResponse.queuing.handSize!", "8"),
            ("spec.limited.limitResponse.queuing.queues!", "64"),
            ("spec.limited.limitResponse.queuing.queueLengthLimit!", "50"),
        ],
    ),
    ("flowschemas.flowcontrol.apiserver.k8s.io", &[("spec.matchingPrecedence!", "1000")]),
    ("validatingadmissionpolicies.admissionregistration.k8s.io", POLICY),
    ("mutatingadmissionpolicies.admissionregistration.k8s.io", POLICY),
    ("validatingadmissionpolicybindings.admissionregistration.k8s.io", POLICY_BINDING),
    ("mutatingadmissionpolicybindings.admissionregistration.k8s.io", POLICY_BINDING),
    ("storageclasses.storage.k8s.io", &[("reclaimPolicy", "\"Delete\""), ("volumeBindingMode", "\"Immediate\"")]),
    ("priorityclasses.scheduling.k8s.io", &[("preemptionPolicy", "\"PreemptLowerPriority\"")]),
    (
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        &[
            ("webhooks[].failurePolicy", "\"Fail\""),
            ("webhooks[].matchPolicy", "\"Equivalent\""),
            ("webhooks[].namespaceSelector", "{}"),
            ("webhooks[].objectSelector", "{}"),
            ("webhooks[].reinvocationPolicy", "\"Never\""),
            ("webhooks[].timeoutSeconds", "10"),
            ("webhooks[].rules[].scope", "\"*\""),
            ("webhooks[].clientConfig.service.port", "443"),
        ],
    ),
    (
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        &[
            ("webhooks[].failurePolicy", "\"Fail\""),
            ("webhooks[].matchPolicy", "\"Equivalent\""),
            ("webhooks[].namespaceSelector", "{}"),
            ("webhooks[].objectSelector", "{}"),
            ("webhooks[].timeoutSeconds", "10"),
            ("webhooks[].rules[].scope", "\"*\""),
            ("webhooks[].clientConfig.service.port", "443"),
        ],
    ),
];

const ROLE_REFERENCE: &[(&str, &str)] = &[("roleRef.apiGroup", "\"rbac.authorization.k8s.io\"")];

const POLICY: &[(&str, &str)] = &[
    ("spec.failurePolicy", "\"Fail\""),
    ("spec.matchConstraints.matchPolicy", "\"Equivalent\""),
    ("spec.matchConstraints.namespaceSelector", "{}"),
    ("spec.matchConstraints.objectSelector", "{}"),
    ("spec.matchConstraints.resourceRules[].scope", "\"*\""),
    ("spec.matchConstraints.excludeResourceRules[].scope", "\"*\""),
];

const POLICY_BINDING: &[(&str, &str)] = &[
    ("spec.matchResources.matchPolicy", "\"Equivalent\""),
    ("spec.matchResources.namespaceSelector", "{}"),
    ("spec.matchResources.objectSelector", "{}"),
    ("spec.matchResources.resourceRules[].scope", "\"*\""),
    ("spec.matchResources.excludeResourceRules[].scope", "\"*\""),
];
