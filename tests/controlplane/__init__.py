"""A real Kubernetes control plane on this machine: etcd, kube-apiserver and the rest."""
