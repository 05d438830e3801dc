"""The Kubernetes launcher: a trial's replicas run in the pods of a cluster."""
