"""Where the cluster is and how to log in to it.

Reading order: `credentials` (what a login returns), `logins` (the ways to log in), `kubeconfig`,
`client_libraries` (they get the same credentials), `active_cluster` (an embedded cluster that
takes over all logins of the process).
"""
